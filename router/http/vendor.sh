#!/usr/bin/env bash
# Writes the third-party libraries of the console to console/vendor (make console-vendor), in
# the versions below, from the npm registry. Run it only to upgrade them: its output is part of
# the repository, so that a build of the server needs only Go. Each version has the checksum of
# its package, as "npm view NAME@VERSION dist.integrity" prints it. A package with another
# checksum is refused.
#
# preact, its hooks and htm are bundled into one module, since a browser requests each file
# separately. uPlot's script becomes a module with an added export.
set -euo pipefail
cd "$(dirname "$0")/console/vendor"
packages=(
	preact@11.2.0 sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==
	htm@3.1.1 sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==
	uplot@1.6.32 sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
	esbuild@0.28.2 sha512-HKVLS8dvII+xoKW9kmqxbRKrnWEXfJJr/FZhhJmiqIB0e053QNYFqOBouTMO/k5sID4MvCiUCvv8b9M4h32wIA==
)
command -v npm >/dev/null || { echo "vendor.sh: npm is not installed: apt-get install npm" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=()
for ((i = 0; i < ${#packages[@]}; i += 2)); do names+=("${packages[i]}"); done
(cd "$work" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund --ignore-scripts "${names[@]}")
for ((i = 0; i < ${#packages[@]}; i += 2)); do
	name=${packages[i]%@*} want=${packages[i + 1]}
	got=$(cd "$work" && node -p "require('./package-lock.json').packages['node_modules/$name'].integrity")
	[ "$got" = "$want" ] || { echo "vendor.sh: ${packages[i]} has the checksum $got, not $want: if you have changed its version, write the new one here; else somebody has changed the package" >&2; exit 1; }
done

cat >"$work/preact.mjs" <<'EOF'
export { h, render, Fragment, createRef } from 'preact';
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from 'preact/hooks';
import { h } from 'preact';
import htm from 'htm';
export const html = htm.bind(h);
EOF
(cd "$work" && node_modules/.bin/esbuild preact.mjs --bundle --format=esm --minify --legal-comments=none --log-level=warning) >preact.mjs
{ cat "$work/node_modules/uplot/dist/uPlot.iife.min.js"; printf '\nexport default uPlot;\n'; } >uplot.mjs
{
	echo "What is in this folder was written by others, under the licences below."
	for p in "${names[@]}"; do
		case $p in esbuild@*) continue ;; uplot@*) file=uplot.mjs ;; *) file=preact.mjs ;; esac
		printf '\n---- %s, in %s\n\n' "${p/@/ }" "$file"
		cat "$work/node_modules/${p%@*}/"LICENSE*
	done
} >LICENSES
