#!/usr/bin/env bash
# Lays out in bin/image what the image holds: the program, built statically, and this machine's certificates of public
# authorities. VERSION is what `postrider version` will say; without it the program asks the revision.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly root=bin/image certificates=/etc/ssl/certs/ca-certificates.crt
if [ ! -s "$certificates" ]; then
  echo "prebuilt: $certificates is missing: apt-get install ca-certificates" >&2
  exit 1
fi
rm -rf "$root"
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs"
CGO_ENABLED=0 go build -trimpath -o "$root/usr/bin/postrider" \
  -ldflags "-s -w -X github.com/postrider/postrider/internal/buildinfo.version=${VERSION:-}" ./cmd/postrider
install -m 0644 "$certificates" "$root$certificates"
