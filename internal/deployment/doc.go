// Package deployment holds the tests of deploy/, and of a release that was laid out: it has no code of its own.
//
// Nothing there is compiled, so everything there is compared with the program: each flag and variable that a file names must exist, each
// metric must be in a running worker's answer. Each right must suffice for the real commands and be no larger, each address of the
// documents must lead somewhere. Files for other programs are also given to these: helm, promtool, docker-compose, systemd-analyze. Where
// one of them is missing its tests are skipped, unless POSTRIDER_REQUIRE_TOOLS is 1; `make test/deploy` installs them. Builds of minutes
// have targets of their own: Hugo `make site/check`, Prometheus `make test/dashboard`.
package deployment
