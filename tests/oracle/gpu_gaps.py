#!/usr/bin/env python3
"""Gaps of each GPU by the definition of `nsys analyze --rule gpu_gaps`, in plain SQL over an nsys export.

The definition: the union of kernels, copies, memsets and graphs of a device; a gap lies between two parts of it.
nsys lists those of over 500 ms; this lists all.

Usage: gpu_gaps.py FILE...; prints one line of JSON for each file: {"path", "gaps": [[device, start ns, end ns,
correlation ids of the work that ends there, correlation ids of the work that starts there]]}.
"""

import json
import sqlite3
import sys

TABLES = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")

QUERY = """
WITH work AS ({work}),
ordered AS (
    SELECT deviceId, start,
        MAX("end") OVER (PARTITION BY deviceId ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM work
)
SELECT deviceId, before, start FROM ordered WHERE start > before ORDER BY deviceId, start
"""


def gaps(path):
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    known = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    tables = [f"CUPTI_ACTIVITY_KIND_{table}" for table in TABLES if f"CUPTI_ACTIVITY_KIND_{table}" in known]
    if not tables:
        return []
    work = " UNION ALL ".join(f'SELECT deviceId, start, "end", correlationId FROM {table}' for table in tables)
    ends, starts = {}, {}
    for device, start, end, correlation in database.execute(work):
        starts.setdefault((device, start), []).append(correlation)
        ends.setdefault((device, end), []).append(correlation)
    found = database.execute(QUERY.format(work=work))
    return [[device, start, end, ends[device, start], starts[device, end]] for device, start, end in found]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(json.dumps({"path": path, "gaps": gaps(path)}))
