-- A rule may put other statements in the place of an INSERT. Triggers are fine:
-- they run inside it. Rules for other commands are fine, too.
{family}
SELECT format('rule %I of %s does something else instead of an INSERT', w.rulename, f.name),
       format('DROP RULE %I ON %s', w.rulename, f.name)
  FROM family AS f
  JOIN pg_rewrite AS w ON w.ev_class = f.relid
 WHERE w.is_instead AND w.ev_type = '3' AND w.ev_enabled <> 'D'
 ORDER BY f.root DESC, f.name, w.rulename
