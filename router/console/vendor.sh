#!/usr/bin/env bash
# Brings what others wrote of the console into assets/vendor: the versions below, from the
# npm registry, whose checksums npm looks at. It is run to upgrade alone (make console-vendor):
# what it makes is part of the repository, so that building the server takes Go and nothing else.
#
# preact, its hooks and htm become one module, since a browser asks for each file by itself;
# uPlot's script becomes a module by the line that exports it.
set -euo pipefail
cd "$(dirname "$0")/assets/vendor"
preact=11.2.0 htm=3.1.1 uplot=1.6.32 esbuild=0.28.2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund --ignore-scripts \
	"preact@$preact" "htm@$htm" "uplot@$uplot" "esbuild@$esbuild")
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
	for p in preact htm uplot; do
		printf '\n---- %s %s, in %s\n\n' "$p" "${!p}" "$([ $p = uplot ] && echo uplot.mjs || echo preact.mjs)"
		cat "$work/node_modules/$p/"LICENSE*
	done
} >LICENSES
