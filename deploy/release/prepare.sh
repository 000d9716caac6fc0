#!/usr/bin/env bash
# Lays out in bin/release what a release holds besides the programs: the chart and the demo's Compose file, both naming the
# released image, and the certificates that go into it for each architecture. Usage: deploy/release/prepare.sh 1.2.3; HELM names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=$1 folder=bin/release certificates=/etc/ssl/certs/ca-certificates.crt
if [ ! -s "$certificates" ]; then
  echo "prepare: $certificates is missing: apt-get install ca-certificates" >&2
  exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
"${HELM:-helm}" package deploy/helm/postrider --version "$version" --app-version "v$version" --destination "$folder"
sed "s|postrider:devel|ghcr.io/postrider/postrider:v$version|" deploy/demo/compose.yaml >"$folder/compose.yaml"
for arch in amd64 arm64; do install -D -m 0644 "$certificates" "$folder/image_$arch$certificates"; done
