package main

// rights returns the ways to let others decide on the meaning of the program's names, or exceed their rights.
func rights() []mutant {
	path := command{pkg: "outbox/schema", run: "^TestFunctionsHaveAFixedPath$"}
	const migration = "outbox/schema/migrations/00002_functions.sql"
	strangers := command{pkg: "outbox/schema", run: "^TestNothingOfTheOutboxCallsAStranger$"}
	overloads := command{pkg: "internal/deployment", run: "^TestNoPlantedOverloadRuns$"}
	return []mutant{
		{
			name: "definer-path-with-schema", promise: "rights", breaks: "who may create in the outbox's schema becomes its owner",
			test: path, says: "outbox_append_batch runs with its caller's search_path",
			edits: []edit{{migration, "duplicate boolean, enqueued boolean)\nLANGUAGE plpgsql SECURITY DEFINER ROWS 1\nSET search_path = pg_catalog,", "duplicate boolean, enqueued boolean)\nLANGUAGE plpgsql SECURITY DEFINER ROWS 1\nSET search_path = pg_catalog, {schema},"}},
		},
		{
			name: "pool-keeps-its-path", promise: "rights", breaks: "who may create in a schema of the worker's path acts as the worker",
			test: overloads, says: "planted overload|worker ended before",
			edits: []edit{{"internal/pg/pool.go", `cfg.ConnConfig.RuntimeParams["search_path"] = FixedPath`, `_ = FixedPath`}},
		},
		{
			name: "migrations-keep-their-path", promise: "rights", breaks: "who may create in a schema of the migrator's path acts as the migrator",
			test: overloads, says: "planted overload|migrate up .* ended with 1",
			edits: []edit{{"outbox/schema/connect.go", "`SET search_path = pg_catalog, pg_temp`", "`SET search_path = public`"}},
		},
		{
			name: "inbox-keeps-its-path", promise: "rights", breaks: "who may create in a schema of a consumer's path acts as the consumer",
			test: overloads, says: "planted overload",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "last bigint, result bytea)\nLANGUAGE plpgsql\nSET search_path = pg_catalog, pg_temp\n", "last bigint, result bytea)\nLANGUAGE plpgsql\n"}},
		},
		{
			name: "stranger-checks-payloads", promise: "rights", breaks: "a function that a stranger put into the outbox's schema runs as its owner at an append",
			test: strangers, says: "planted public.outbox_check_payload",
			edits: []edit{{migration, "new_payload, NULL::bigint)", "new_payload, NULL)"}},
		},
		{
			name: "stranger-adds-parts", promise: "rights", breaks: "a function that a stranger put into the outbox's schema runs as who splits the events",
			test: strangers, says: "planted public.outbox_events_add",
			edits: []edit{{"outbox/schema/migrations/00004_operators.sql", "outbox_events_add(1::bigint)", "outbox_events_add(1)"}},
		},
		{
			name: "stranger-stops-captures", promise: "rights", breaks: "a function that a stranger put into the outbox's schema keeps captured tables from being written to",
			test: command{pkg: "outbox/capture", run: "^TestWritersMeetNoStrangersFunction$"}, says: "is not unique|planted",
			edits: []edit{{"outbox/capture/names.go", `")::" + p[1]`, `")"`}},
		},
		{
			name: "nats-password-in-error", promise: "rights", breaks: "part of a password that was not encoded is in the error",
			test: command{pkg: "delivery/natspub/wire", run: "^TestConnectKeepsPasswordsToItself$"}, says: "is not refused",
			edits: []edit{{"delivery/natspub/wire/connect.go", `err != nil || strings.Contains(one, "@") && parsed.User == nil`, `err != nil && parsed != nil`}},
		},
		{
			name: "hidden-characters-printed", promise: "rights", breaks: "a topic turns the direction of what an operator reads beside it",
			test: command{pkg: "cmd/postrider", run: "^TestExtremeRowsAreShown$"}, says: "steers a terminal",
			edits: []edit{{"cmd/postrider/main.go", "stdout, stderr = visibleWriter{stdout}, visibleWriter{stderr}", "_ = visibleWriter{}"}},
		},
		{
			name: "null-ends-the-list", promise: "monitor", breaks: "one row of a worker that lacks its process id fails pages and commands for all",
			test: command{pkg: "cmd/postrider", run: "^TestExtremeRowsAreShown$"}, says: "status 503",
			edits: []edit{{"heartbeat/sql/workers.sql", "coalesce(pid, 0)", "pid"}},
		},
		{
			name: "tables-steer-terminals", promise: "rights", breaks: "what somebody wrote into the database steers an operator's terminal",
			test: command{pkg: "cmd/postrider", run: "^TestTablesSteerNoTerminal$"}, says: "status 0",
			edits: []edit{{"cmd/postrider/terminal.go", "printable(fmt.Sprint(row[i]))", "fmt.Sprint(row[i])"}},
		},
		{
			name: "any-time-is-appended", promise: "append", breaks: "events have times that no program can read",
			test: command{pkg: "outbox/schema", run: "^TestAppendRefuses$"}, says: "naming occurred_at",
			edits: []edit{{migration, "WHEN {schema}.outbox_bad_time(occurred_at)", "WHEN false"}},
		},
		{
			name: "status-is-appended", promise: "append", breaks: "clients take an event for an answer of the server and stop",
			test: command{pkg: "outbox/schema", run: "^TestAppendRefuses$"}, says: "take for the server's",
			edits: []edit{{migration, "lower(field) IN ('status', ", "lower(field) IN ("}},
		},
	}
}

// appends returns the ways to append other events than a producer gave, or none.
func appends() []mutant {
	const migration = "outbox/schema/migrations/00002_functions.sql"
	return []mutant{
		{
			name: "batch-locks-by-hash", promise: "append", breaks: "a batch and single appends in the order of streams deadlock",
			test: command{pkg: "outbox/schema", run: "^TestBatchesLockInTheOrderOfStreams$"}, says: "deadlock detected",
			edits: []edit{{migration, "ORDER BY s.stream OFFSET 0", "ORDER BY key OFFSET 0"}},
		},
		{
			name: "batch-answers-remembered", promise: "append", breaks: "of rows that are alike, appended in a join, only the first is",
			test: command{pkg: "outbox/schema", run: "^TestRowsThatAreAlikeAreAllAppended$"}, says: "events, want",
			edits: []edit{{migration, "LANGUAGE plpgsql SECURITY DEFINER ROWS 1\n", "LANGUAGE plpgsql SECURITY DEFINER ROWS 1000\n"}},
		},
		{
			name: "stream-changes-its-key", promise: "append", breaks: "a stream's events go to two partitions, out of their order",
			test: command{pkg: "outbox/schema", run: "^TestAStreamKeepsItsKey$"}, says: "want SQLSTATE 22023",
			edits: []edit{{migration, "IF kept <> new_key AND pg_trigger_depth() = 0 THEN", "IF false THEN"}},
		},
		{
			name: "batch-changes-a-key", promise: "append", breaks: "a batch puts a stream's events into two partitions, out of their order",
			test: command{pkg: "outbox/schema", run: "^TestAStreamKeepsItsKey$"}, says: "has the keys and partitions",
			edits: []edit{{migration, "    partition_keys := kept;\n", ""}},
		},
		{
			name: "checks-without-end", promise: "append", breaks: "a payload that is nested deeply costs gigabytes of the database's memory",
			test: command{pkg: "outbox/schema", run: "^TestChecksAreBounded$"}, says: "depth: ",
			edits: []edit{{migration, "ELSIF depth > 64 THEN", "ELSIF depth > 6400 THEN"}},
		},
		{
			name: "batch-goes-unchecked", promise: "append", breaks: "a batch appends payloads that do not fit the schema of their type",
			test: command{pkg: "outbox/schema", run: "^TestACheckedTypeRefusesWhatDoesNotFit$"}, says: "outbox_append_batch.*want OB002",
			edits: []edit{{migration, "IF EXISTS (SELECT FROM {schema}.outbox_types AS t WHERE t.checked) THEN", "IF false THEN"}},
		},
		{
			name: "unknown-keyword-passes", promise: "append", breaks: "a schema is set of which a part is not checked",
			test: command{pkg: "outbox/schema", run: "^TestSchemasThatCannotBeCheckedAreRefused$"}, says: "it says",
			edits: []edit{{migration, "wrong := 'is not checked here: leave it out, or set the type without --check';", "NULL;"}},
		},
		{
			name: "pool-as-transaction", promise: "append", breaks: "an event is committed before the rest of its transaction, or without it",
			test: command{pkg: "outbox", run: "^TestOnlyInATransaction$"}, says: `pgxpool\.Pool: <nil>`,
			edits: []edit{{"outbox/tx.go", "case *pgxpool.Pool:\n\t\talone = true", "case *pgxpool.Pool:"}},
		},
	}
}

// secrets returns the ways to reveal secrets.
func secrets() []mutant {
	return []mutant{
		{
			name: "password-with-a-comma", promise: "settings", breaks: "the end of a password is printed",
			test: command{pkg: "cmd/postrider", run: "^TestSecretsAreNotPrinted$/^DSN,_comma$"}, says: "a secret is shown",
			edits: []edit{{"cmd/postrider/config.go", "return redactDatabase(v)", "return redact(v)"}},
		},
		{
			name: "headers-of-traces", promise: "settings", breaks: "a collector's token is printed",
			test: command{pkg: "cmd/postrider", run: "^TestTheEnvironmentDecidesAboutTraces$"}, says: "it says <nil>",
			edits: []edit{{"cmd/postrider/otel.go", "if !readableHeaders(getenv(name)) {", "if false {"}},
		},
	}
}

// captures returns the ways to capture other changes than a table's, or under a wrong name.
func captures() []mutant {
	of := func(run string) command { return command{pkg: "outbox/capture", run: "^" + run + "$"} }
	return []mutant{
		{
			name: "capture-fires-late", promise: "append", breaks: "a trigger of the table that changes a row again has its event first",
			test: of("TestATriggerOfTheTableComesAfterwards"), says: "jobs.updated.*jobs.inserted.*want",
			edits: []edit{{"outbox/capture/store.go", `return "00_postrider_" + string(k)`, `return "zz_postrider_" + string(k)`}},
		},
		{
			name: "capture-locks-each-row", promise: "append", breaks: "a statement that changes many rows of a captured table fails",
			test: of("TestALargeStatementIsCaptured"), says: "out of shared memory",
			edits: []edit{{"outbox/schema/migrations/00002_functions.sql", "IF pg_trigger_depth() = 0 AND pg_advisory_xact_lock", "IF pg_advisory_xact_lock"}},
		},
		{
			name: "capture-follows-sessions", promise: "append", breaks: "a row's event depends on the time zone of who writes it",
			test: of("TestASessionsSettingsDoNotChangeEvents"), says: `\+05:45`,
			edits: []edit{{"outbox/capture/function.go", "SET timezone = 'UTC'\n", ""}},
		},
		{
			name: "capture-for-everybody", promise: "rights", breaks: "events of a table are forged by a trigger of another one",
			test: of("TestAWriterNeedsNoRightOnTheOutbox"), says: "<nil>, want SQLSTATE 42501",
			edits: []edit{{"outbox/capture/function.go", `"REVOKE ALL ON FUNCTION " + call + " FROM PUBLIC"`, `"GRANT EXECUTE ON FUNCTION " + call + " TO PUBLIC"`}},
		},
		{
			name: "capture-as-superuser", promise: "rights", breaks: "code of a table's owner runs with the rights of who captured it",
			test: of("TestTheTriggerRunsAsTheTablesOwner"), says: "the function runs as",
			edits: []edit{{"outbox/capture/function.go", `" OWNER TO " + t.owner`, `" OWNER TO CURRENT_USER"`}},
		},
		{
			name: "adopt-in-any-order", promise: "append", breaks: "what waited in an outbox table is imported in another order",
			test: of("TestAFailedImportChangesNothing"), says: "the order is another",
			edits: []edit{{"outbox/capture/waiting.go", `s.order = strings.Join(by, ", ")`, `s.order = "r.ctid DESC"`}},
		},
		{
			name: "adopt-twice", promise: "append", breaks: "a table that is adopted again has two events for a row, or cannot be",
			test: of("TestAdoptingAgainDoublesNothing"), says: "imported again",
			edits: []edit{{"outbox/capture/waiting.go", "return one.Told })", "return false })"}},
		},
		{
			name: "adopt-dropped", promise: "append", breaks: "a table that is adopted again tells rows again whose events were dropped",
			test: of("TestARowWhoseEventWasDroppedIsNotToldAgain"), says: "<nil>, want a refusal",
			edits: []edit{{"outbox/capture/waiting.go", "		if dropped {", "		if false {"}},
		},
		{
			name: "adopt-any-row", promise: "append", breaks: "rows of a queue that are no events become some",
			test: of("TestOnlyTheRowsThatWereNamedAreAdopted"), says: `events: .*public.jobs`,
			edits: []edit{{"outbox/capture/row.go", `if test != "" {`, `if false {`}},
		},
		{
			name: "adopt-beside-another", promise: "append", breaks: "another relay publishes the rows of an adopted table, too",
			test: of("TestATableLeavesThePublicationOfAnotherRelay"), says: "published is",
			edits: []edit{{"outbox/capture/function.go", `return append(list, t.leaves()...), nil`, `return list, nil`}},
		},
	}
}

// choices returns the ways to publish unselected data of a table, or to omit selected data.
func choices() []mutant {
	of := func(run string) command { return command{pkg: "outbox/capture", run: "^" + run + "$"} }
	return []mutant{
		{
			name: "capture-by-name", promise: "rights", breaks: "an excluded column is published once it is renamed",
			test: of("TestTheChoiceFollowsColumns"), says: "pan.*want",
			edits: []edit{{"outbox/capture/sql/triggers.sql", "        {NOW}\n", "        {BEFORE}\n"}},
		},
		{
			name: "capture-forgets-settings", promise: "rights", breaks: "a column that was excluded is published because --replace does not name it",
			test: of("TestSettingsAreChangedOneAtATime"), says: "secret",
			edits: []edit{{"outbox/capture/capture.go", "c.Columns, c.Exclude = before.Columns, before.Exclude", "_ = before"}},
		},
		{
			name: "capture-apply-prunes", promise: "append", breaks: "a capture ends because a file of others does not name it",
			test: command{pkg: "cmd/postrider", run: "^TestApplyDropsNothingUnasked$"}, says: "it tells .*drop public.lines",
			edits: []edit{{"outbox/capture/apply.go", "if o.Prune {", "if true {"}},
		},
		{
			name: "types-apply-prunes", promise: "append", breaks: "a type is checked no more because a file of others does not name it",
			test: command{pkg: "cmd/postrider", run: "^TestApplyDropsNothingUnasked$"}, says: "outbox_types: 1, <nil>, want 2",
			edits: []edit{{"delivery/ops/contracts/apply.go", "if o.Prune {", "if true {"}},
		},
		{
			name: "capture-apply-unasked", promise: "rights", breaks: "a file makes a column public that nobody confirmed",
			test: command{pkg: "cmd/postrider", run: "^TestApplyDropsNothingUnasked$"}, says: "ended with",
			edits: []edit{
				{"outbox/capture/apply.go", "o.DryRun || unconfirmed\n", "o.DryRun\n"},
				{"outbox/capture/apply.go", "if err == nil && unconfirmed && ", "if err == nil && unconfirmed && false && "},
			},
		},
		{
			name: "capture-any-table", promise: "rights", breaks: "who may execute the function of a captured table forges its events",
			test: of("TestAFunctionSpeaksForItsTableAlone"), says: "<nil>, want SQLSTATE 42501",
			edits: []edit{{"outbox/capture/sql/triggers.sql", "IF TG_RELID <> {TABLE} AND NOT", "IF false AND TG_RELID <> {TABLE} AND NOT"}},
		},
		{
			name: "capture-kept-back", promise: "P1", breaks: "whoever writes to a captured table keeps its changes from being published",
			test: of("TestAWriterCannotKeepChangesBack"), says: "0 events are queued of 1",
			edits: []edit{{"outbox/capture/sql/triggers.sql", "PERFORM pg_catalog.set_config('postrider.replaying', '', true);", "NULL;"}},
		},
		{
			name: "capture-stays-out", promise: "append", breaks: "a table that is captured no more stays out of the publication of another relay",
			test: of("TestSettingsAreChangedOneAtATime"), says: "published is other",
			edits: []edit{{"outbox/capture/store.go", "slices.Concat(found.dropped(), back)", "slices.Concat(found.dropped(), back[:0])"}},
		},
		{
			name: "capture-any-name", promise: "rights", breaks: "a name that means two tables captures one of them",
			test: of("TestANameThatMeansTwoTablesIsRefused"), says: "want a refusal",
			edits: []edit{{"outbox/capture/table.go", "case len(found) > 1:", "case len(found) > 2:"}},
		},
		{
			name: "capture-reads-json", promise: "append", breaks: "a captured table refuses JSON that it took before columns were chosen",
			test: of("TestAChoiceOfColumnsTakesWhatTheTableTakes"), says: "the application's INSERT of",
			edits: []edit{{"outbox/capture/body.go", ":= (SELECT row_to_json(r.*)::text", ":= (SELECT row_to_json(r.*)::jsonb::text"}},
		},
		{
			name: "capture-long-keys", promise: "append", breaks: "a key that is too long for a stream's name fails the writers of a captured table",
			test: of("TestAKeyThatNamesNoStreamIsMadeToFit"), says: "the application's INSERT of repeat",
			edits: []edit{{"outbox/capture/body.go", "> 1024 OR", "> 9999 OR"}},
		},
		{
			name: "capture-old-types", promise: "append", breaks: "sessions that wrote to a captured table fail once a column has another type",
			test: of("TestColumnsGetOtherTypes"), says: "type of parameter",
			edits: []edit{{"outbox/capture/body.go", `"_types = '{" + strings.Join(types, ",") + "}'::oid[]"`, `"_types IS NOT NULL"`}},
		},
		{
			name: "capture-itself", promise: "append", breaks: "a table that the outbox writes itself is captured, and appends for ever",
			test: of("TestOwnTablesAreNotCaptured"), says: "want a refusal",
			edits: []edit{{"outbox/capture/sql/triggers.sql", "AND (c.relname = ANY ({outbox_tables})", "AND (c.relname = ANY ('{events}')"}},
		},
		{
			name: "capture-undroppable", promise: "append", breaks: "a trigger stays because a column that a publication had is gone",
			test: of("TestATriggerIsDroppedWhateverWasPublished"), says: "after ALTER TABLE cards DROP COLUMN v",
			edits: []edit{{"outbox/capture/publication.go", "		if there {\n", "		if true {\n"}},
		},
	}
}

// hosts returns the ways for an adopted table to lose rows, to fail its writers, or to run its owner's code as somebody else.
func hosts() []mutant {
	of := func(run string) command { return command{pkg: "outbox/capture", run: "^" + run + "$"} }
	const functions = "outbox/schema/migrations/00002_functions.sql"
	return []mutant{
		{
			name: "adopt-by-id-alone", promise: "append", breaks: "rows whose uuid another table has are taken for told",
			test: of("TestTablesMayShareTheirIDs"), says: "events, want 604",
			edits: []edit{{functions, "SELECT bool_or(f.mine AND (f.alike OR f.event_id = next_id))", "SELECT bool_or(true)"}},
		},
		{
			name: "adopt-begun-again", promise: "append", breaks: "a row whose id began again is taken for told",
			test: of("TestIDsThatBeginAgain"), says: "want a refusal",
			edits: []edit{{functions, "SELECT bool_or(f.mine AND (f.alike OR f.event_id = next_id))", "SELECT bool_or(f.mine)"}},
		},
		{
			name: "adopt-taken-meanwhile", promise: "append", breaks: "an INSERT of an application fails whose id another transaction took",
			test: of("TestAnIDThatIsTakenMeanwhile"), says: "the application's INSERT fails",
			edits: []edit{{functions, "    EXCEPTION WHEN unique_violation THEN -- another transaction", "    EXCEPTION WHEN division_by_zero THEN -- another transaction"}},
		},
		{
			name: "adopt-odd-headers", promise: "append", breaks: "an INSERT of an application fails whose headers are none of a message",
			test: of("TestOddRowsFailNoWriter"), says: "the application's INSERT fails",
			edits: []edit{{functions, "    event_metadata := coalesce({schema}.outbox_adopted_metadata(metadata, of_headers), '{}'::jsonb)", "    event_metadata := coalesce(jsonb_build_object('headers'::text, metadata::jsonb), '{}'::jsonb)"}},
		},
		{
			name: "append-nil-id", promise: "append", breaks: "events are appended that every inbox calls malformed",
			test: command{pkg: "outbox/schema", run: "^TestAppendRefuses$"}, says: "naming event_id",
			edits: []edit{{functions, "    WHEN event_id = uuid '", "    WHEN event_id < uuid '"}},
		},
		{
			name: "append-headers-alike", promise: "append", breaks: "of two headers that differ by case alone some clients read one, some the other",
			test: command{pkg: "outbox/schema", run: "^TestAppendRefuses$"}, says: "naming must not come twice",
			edits: []edit{{functions, "strpos(names, ' ' || lower(field) || ' ') > 0", "strpos(names, ' ' || lower(field) || ' ') > 99999"}},
		},
		{
			name: "adopt-as-its-caller", promise: "rights", breaks: "code of a table's owner runs with the rights of who adopts it",
			test: of("TestAdoptLendsTheOwnerNothing"), says: "cast as",
			edits: []edit{{"outbox/capture/contained.go", `"ALTER FUNCTION " + function + " OWNER TO " + t.owner,`, ""}},
		},
		{
			name: "adopt-hidden-rows", promise: "append", breaks: "rows that a policy hides are left out without a word",
			test: of("TestRowsThatAPolicyHides"), says: "want SQLSTATE 42501",
			edits: []edit{{"outbox/capture/contained.go", `"SET LOCAL row_security = off",`, ""}},
		},
	}
}

// calls returns the ways to carry a call out twice, or to take its answer in twice.
func calls() []mutant {
	const step = "inbox/caller/step.go"
	of := func(run string) command { return command{pkg: "inbox/caller", run: "^" + run + "$"} }
	return []mutant{
		{
			name: "call-numbered-again", promise: "calls", breaks: "a call whose sender dies before the answer is carried out twice",
			test: of("TestACallerIsKilled"), says: `effects are \["request 0" "request 0"`,
			edits: []edit{{step, "if u.queued == last.queued {", "if u.queued == last.queued && c.sent.queued == u.queued {"}},
		},
		{
			name: "answer-taken-in-apart", promise: "calls", breaks: "two senders take one answer in",
			test: of("TestTwoCallersShareAQueue"), says: "answers are",
			edits: []edit{{step, "if removed.RowsAffected() == 0 {", "if removed.RowsAffected() < 0 {"}},
		},
		{
			name: "forgotten-ids-given-again", promise: "calls", breaks: "a sender whose database was set back takes other calls' results for its own",
			test: of("TestADatabaseThatForgotIsNoticed"), says: "it took another call's answer in",
			edits: []edit{{"inbox/caller/caller.go", "theirs.ID <= ours.ID {", "theirs.ID <= ours.ID || true {"}},
		},
		{
			name: "number-of-an-answered-call", promise: "calls", breaks: "a call whose number was another's before is taken for that, and never carried out",
			test: of("TestANumberThatComesAgainIsAnotherCalls"), says: "answers are",
			edits: []edit{{"inbox/caller/sql/calls.sql", "AS c SET queued = 0 FROM", "AS c SET queued = r.queued FROM"}},
		},
		{
			name: "other-server-not-asked", promise: "calls", breaks: "what another process sent before a failover forgot it is taken for one's own",
			test: of("TestACopyThatForgotIsNoticed"), says: "it took another call's answer in",
			edits: []edit{{step, "last.copied != c.copied", "c.copied == \"\""}},
		},
	}
}

// grants returns the ways to take an application's grants, and rows of its other tables.
func grants() []mutant {
	return []mutant{
		{
			name: "grants-by-pattern", promise: "rights", breaks: "migrate up revokes what an application granted on a table of its own whose name begins with outbox",
			test: command{pkg: "outbox/schema", run: "^TestAnApplicationKeepsItsGrants$"}, says: "after migrate up",
			edits: []edit{{"outbox/schema/migrations/00004_operators.sql", "t.relname = ANY (ours)", "t.relname ~ '^(events|outbox)'"}},
		},
		{
			name: "inbox-grants-by-pattern", promise: "rights", breaks: "the inbox's migration revokes what an application granted on a table of its own whose name begins with inbox",
			test: command{pkg: "inbox", run: "^TestAnApplicationKeepsItsGrants$"}, says: "holds rights on",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "t.relname = ANY (ours)", "t.relname ~ '^inbox_'"}},
		},
		{
			name: "grants-by-name", promise: "rights", breaks: "migrate up revokes what an application granted on a function of its own that has a name of ours",
			test: command{pkg: "outbox/schema", run: "^TestAnApplicationKeepsItsGrants$"}, says: "after migrate up",
			edits: []edit{{"outbox/schema/migrations/00004_operators.sql", "AND f.oid IN (SELECT to_regprocedure(CASE WHEN strpos(o.name, '(') > 0 THEN '{schema}.' || o.name END) FROM", "AND f.proname IN (SELECT split_part(o.name, '(', 1) FROM"}},
		},
		{
			name: "own-tables-by-pattern", promise: "P8", breaks: "row-level security of an application's own table keeps workers from starting",
			test: command{pkg: "delivery/pgstore", run: "^TestFaultsOfWritesAreOfOurTables$"}, says: "an application's own table: policies",
			edits: []edit{{"delivery/pgstore/sql/checks/preconditions.sql", "c.relname = ANY ({outbox_tables}) AND c.relkind", "c.relname LIKE 'outbox%' AND c.relkind"}},
		},
		{
			name: "names-of-parts-unsaid", promise: "P8", breaks: "events are split although a table has the name of a part, and the error is PostgreSQL's",
			test: command{pkg: "outbox/schema", run: "^TestNamesOfPartsThatAreTakenAreNamed$"}, says: "in the way is",
			edits: []edit{{"outbox/schema/migrations/00004_operators.sql", "c.relname IN ('events_0', 'events_0_pkey',", "c.relname IN ('events_0_pkey',"}},
		},
		{
			name: "faults-of-writes-once", promise: "P8", breaks: "a captured table whose trigger is disabled while workers run is named by no worker",
			test: command{pkg: "delivery/pgstore", run: "^TestFaultsOfWritesAreOfOurTables$"}, says: "writes have",
			edits: []edit{{"delivery/pgstore/preconditions.go", "\t\tfor _, f := range t.Flaws {", "\t\tfor _, f := range t.Flaws[:0] {"}},
		},
		{
			name: "adopt-deletes-by-name", promise: "rights", breaks: "a row goes from the table that has the name of an adopted one by now",
			test: command{pkg: "outbox/capture", run: "^TestARenamedTableLosesItsOwnRows$"}, says: "the other table has|does not exist",
			edits: []edit{{"outbox/capture/row.go", `IF same AND to_regclass(" + literal(r.quoted()) + ") = " + place + " THEN`, `IF same AND " + place + " > 0 THEN`}},
		},
	}
}
