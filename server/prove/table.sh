#!/bin/sh
# Makes RELIABILITY.md's table of what the proofs have written, a line of JSON each.
set -eu
echo "| proof | seed | runs | faults | survived | violations | note |"
echo "|---|---|---|---|---|---|---|"
sed -e 's/"violations":\[\]/"violations":0/' -e 's/"violations":\[.*\],*/"violations":"some, see the log"/' "$1" |
	sed -E 's/^\{"name":"([^"]*)","seed":([0-9]+),"runs":([0-9]+),"faults":([0-9]+),"survived":([0-9]+),"violations":("?[^,"}]*"?)(,"note":"([^"]*)")?.*$/| \1 | \2 | \3 | \4 | \5 | \6 | \8 |/'
