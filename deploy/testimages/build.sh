#!/usr/bin/env bash
# Builds the images that the integration tests run on containers, without a registry:
#   postrider-test/postgres   the PostgreSQL server that is installed on this machine, with the libraries it needs
#   postrider-test/nats       nats-server at the version in go.mod, built statically
#   postrider-test/postrider  the released image, around a program that is built here
# Needs: a Docker engine, Go, make, tar, ldd, the PostgreSQL server binaries. Needs no root of its own.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "testimages: $*" >&2
  exit 1
}

# The user inside both images; any number does that is not root.
readonly uid=999

# prepare_root lays out an empty file system in the folder $1.
prepare_root() {
  mkdir -p "$1"/{usr/bin,usr/sbin,usr/lib,usr/lib64,etc,tmp,dev,proc,sys}
  # Distributions with a merged /usr keep programs and libraries there; the loader is named by its old path.
  ln -s usr/bin "$1/bin"
  ln -s usr/lib "$1/lib"
  ln -s usr/lib64 "$1/lib64"
  chmod 1777 "$1/tmp"
  printf 'root:x:0:0::/:/bin/sh\npostrider:x:%d:%d::/tmp:/bin/sh\n' "$uid" "$uid" >"$1/etc/passwd"
  printf 'root:x:0:\npostrider:x:%d:\n' "$uid" >"$1/etc/group"
}

# add_file copies one file to the same place in the folder $1, through the links of merged folders.
add_file() {
  local target="$1$2"
  mkdir -p "$(dirname "$target")"
  cp --dereference "$2" "$target"
}

# add_libraries copies what the given programs and libraries load.
add_libraries() {
  local root=$1 library
  shift
  { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// && NF == 2 { print $1 }' |
    sort -u | while read -r library; do add_file "$root" "$library"; done
}

# import_root turns the folder $1 into the image $2; the remaining arguments are its settings.
import_root() {
  local root=$1 image=$2 changes=() change
  shift 2
  for change in "$@"; do changes+=(--change "$change"); done
  tar --create --directory "$root" --owner="$uid" --group="$uid" --numeric-owner . |
    docker import "${changes[@]}" - "$image" >/dev/null
  echo "built $image"
}

# newest_server prints the folder of the newest installed PostgreSQL server.
newest_server() {
  local folder
  folder=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
  if [ -z "$folder" ] && command -v postgres >/dev/null; then
    folder=$(dirname "$(readlink -f "$(command -v postgres)")")
  fi
  [ -x "$folder/initdb" ] || fail "no PostgreSQL server binaries: apt-get install postgresql"
  echo "$folder"
}

build_postgres() {
  local root="$work/postgres" bin share libraries program
  bin=$(newest_server)
  share=$("$bin/pg_config" --sharedir 2>/dev/null || echo "/usr/share/postgresql/$(basename "$(dirname "$bin")")")
  libraries="$(dirname "$bin")/lib"
  prepare_root "$root"
  for program in postgres initdb; do add_file "$root" "$bin/$program"; done
  mkdir -p "$root$libraries" "$root$share" "$root/var/lib/postgresql/data" "$root/usr/share"
  cp "$libraries"/*.so "$root$libraries/"
  rm -f "$root$libraries/llvmjit.so" # without its 100 MB of LLVM the server would fail where it compiles
  cp --recursive --dereference "$share/." "$root$share/"
  [ ! -d /usr/share/zoneinfo ] || cp --recursive /usr/share/zoneinfo "$root/usr/share/"
  cp --dereference "$(command -v sh)" "$root/usr/bin/sh"
  add_libraries "$root" "$bin/postgres" "$bin/initdb" "$(command -v sh)" "$libraries/plpgsql.so" "$libraries/dict_snowball.so"
  install -m 0755 "$here/postgres-entrypoint.sh" "$root/usr/bin/entrypoint"
  chmod 0700 "$root/var/lib/postgresql/data"
  import_root "$root" postrider-test/postgres:latest \
    "USER $uid" "ENV PATH=$bin:/usr/bin" "ENV LC_ALL=C" 'ENTRYPOINT ["/usr/bin/entrypoint"]' 'CMD ["postgres"]'
}

build_nats() {
  local root="$work/nats" version
  version=$(cd "$repository" && go list -m -f '{{.Version}}' github.com/nats-io/nats-server/v2)
  prepare_root "$root"
  GOFLAGS='' GOBIN="$root/usr/bin" CGO_ENABLED=0 go install "github.com/nats-io/nats-server/v2@$version"
  mkdir -p "$root/data"
  import_root "$root" postrider-test/nats:latest \
    "USER $uid" 'ENTRYPOINT ["/usr/bin/nats-server"]' 'CMD ["-js", "-sd", "/data"]'
}

build_postrider() {
  (cd "$repository" && make --silent image IMAGE=postrider-test/postrider:latest VERSION=test >/dev/null)
  echo "built postrider-test/postrider:latest"
}

docker version >/dev/null 2>&1 || fail "no Docker engine answers"
build_postgres
build_nats
build_postrider
