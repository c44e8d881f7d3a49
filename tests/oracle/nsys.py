#!/usr/bin/env python3
"""What does an nsys SQLite export say? An independent answer in plain SQL, to test Lacuna against.

Usage: nsys.py FILE...

Prints one JSON object a file:
  rows       {table: rows} of every table
  kernels, runtime, driver, os, push_pop, start_end
             {name: [count, sum of ns]}; names of CUDA's API without the version at their end
  bytes      {direction of the copy: [count, sum of ns, sum of bytes]}
  queue      {kernel: [count, sum of ns]} from the end of the launching call to the start, where that is later, of the
             first work that the call launched on a stream
  range_kernels {range, newline, kernel: [count, sum of ns]} of kernels launched in push/pop ranges on their thread
  never_ended   NVTX ranges without an end, which are in no sum
  devices    [{machine, device, kernels, memcpys, memsets, graphs, window, window_ns, busy_ns, idle_ns}]
  syncs      [[start, kind by the name of the call, stream, event, stream and correlation id of its record]];
             null for what is unknown
  graphs     [[start, graph, executable]] of graphs that were recorded as one
  graph_nodes   device work that ran as a node of a graph
Times are integer nanoseconds. Rows whose times are not whole numbers in order are left out, as no
tool can place them. The file is opened read-only and immutable. Standard library only; shares no
code with Lacuna.
"""
import json
import re
import sqlite3
import sys
import urllib.parse

DIRECTIONS = {
    **dict.fromkeys((1, 3, 11), "HtoD"), **dict.fromkeys((2, 4, 12), "DtoH"), **dict.fromkeys((5, 6, 7, 8, 13), "DtoD"),
    9: "HtoH", 10: "PtoP",
}
WORK = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels", "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpys",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memsets", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "graphs",
}
TIMED = "typeof(start) = 'integer' AND typeof(\"end\") = 'integer' AND start <= \"end\""


class Export:
    def __init__(self, path):
        uri = "file:" + urllib.parse.quote(path) + "?mode=ro&immutable=1"
        self.db = sqlite3.connect(uri, uri=True)
        # Text may hold bytes that are no Unicode.
        self.db.text_factory = bytes
        names = self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        self.tables = {name.decode("utf-8", "replace") for (name,) in names}

    def columns(self, table):
        return {row[1].decode() for row in self.db.execute(f'PRAGMA table_info("{table}")')}

    def query(self, sql, *tables):
        """The rows, or none if a table is absent."""
        return self.db.execute(sql).fetchall() if all(table in self.tables for table in tables) else []

    def sums(self, sql, table, has_version=False):
        """{name: [count, ns]} from rows (name, count, ns)."""
        answer = {}
        for name, count, ns in self.query(sql, "StringIds", table):
            name = name.decode("utf-8", "replace") if isinstance(name, bytes) else (name or "")
            if has_version:
                name = re.sub(r"_v\d{4,}$", "", name)
            entry = answer.setdefault(name, [0, 0])
            entry[0] += count
            entry[1] += ns
        return answer


def union(intervals):
    """Length of the union, by sweeping over sorted edges with a counter."""
    edges = sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])
    total = depth = 0
    previous = None
    for at, change in edges:
        if depth > 0:
            total += at - previous
        depth += change
        previous = at
    return total


CALLS = {
    "cudaDeviceSynchronize": "Context Sync", "cuCtxSynchronize": "Context Sync",
    "cudaStreamSynchronize": "Stream Sync", "cuStreamSynchronize": "Stream Sync",
    "cudaStreamWaitEvent": "Stream Wait Event", "cuStreamWaitEvent": "Stream Wait Event",
    **dict.fromkeys(("cudaEventSynchronize", "cuEventSynchronize", "cudaEventQuery", "cuEventQuery"), "Event Sync"),
}


def syncs(export):
    """Waits, with their kind by the name of their call alone, and the last record of their event before them."""
    table, calls, records = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("SYNCHRONIZATION", "RUNTIME", "CUDA_EVENT"))
    timed = TIMED.replace("start", "w.start").replace('"end"', 'w."end"')
    sql = f"""
        SELECT w.start, (SELECT s.value FROM {calls} c JOIN StringIds s ON s.id = c.nameId
                         WHERE c.correlationId = w.correlationId LIMIT 1),
               nullif(w.streamId, 4294967295), nullif(nullif(w.eventId, 4294967295), 0), {{}}
        FROM {table} w WHERE {timed} ORDER BY w.start, w.correlationId"""
    record = f"""(SELECT r.{{}} FROM {records} r WHERE r.eventId = w.eventId AND r.contextId = w.contextId AND r.globalPid IS w.globalPid
                  AND r.correlationId < w.correlationId ORDER BY r.correlationId DESC LIMIT 1)"""
    has_records = records in export.tables
    last = ", ".join(record.format(column) if has_records else "NULL" for column in ("streamId", "correlationId"))
    rows = export.query(sql.format(last), table, calls, "StringIds")
    answer = []
    for start, call, stream, event, *record in rows:
        kind = CALLS[re.sub(r"_v\d{4,}$", "", call.decode())] if call else None
        # Only generated exports have a stream wait for an event without the event: their kind is not compared.
        if kind == "Stream Wait Event" and event is None:
            kind = None
        answer.append([start, kind, stream, event, *record])
    return answer


def devices(export):
    gpus = {
        (pid, cuda): gpu
        for pid, cuda, gpu in export.query("SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_DEVICE")
    }
    work = {}
    for table, kind in WORK.items():
        sql = f'SELECT coalesce(globalPid, 0), deviceId, start, "end" FROM {table} WHERE {TIMED}'
        for owner, device, start, end in export.query(sql, table):
            key = (owner >> 48 & 0xFF, gpus.get((owner >> 24 & 0xFFFFFF, device), device))
            work.setdefault(key, []).append((kind, start, end))
    answer = []
    for (machine, device), rows in sorted(work.items()):
        first, last = min(row[1] for row in rows), max(row[2] for row in rows)
        busy = union([(start, end) for _, start, end in rows])
        count = {name: sum(1 for row in rows if row[0] == name) for name in WORK.values()}
        answer.append({
            "machine": machine, "device": device, **count, "window": [first, last], "window_ns": last - first,
            "busy_ns": busy, "idle_ns": last - first - busy,
        })
    return answer


LAUNCHED = """
    SELECT k.rowid AS kernel, s.value AS name, k.start AS start, k."end" - k.start AS ns, r.start AS called,
           min(r."end") AS returned, r.globalTid AS thread
    FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND (r.globalTid & -16777216) = k.globalPid
    WHERE k.correlationId > 0 GROUP BY k.rowid"""


def queue(export):
    # Of what one call launched on a stream, as of a graph, the first alone waits for the call.
    own = "globalPid, deviceId, streamId, correlationId, start"
    works = [table for table in WORK if table in export.tables and not table.endswith("GRAPH_TRACE")]
    work = " UNION ALL ".join(f"SELECT {own} FROM {table}" for table in works)
    sql = f"""
        WITH first AS MATERIALIZED (SELECT globalPid AS pid, deviceId AS device, streamId AS stream, correlationId AS id,
             min(start) AS begin FROM ({work}) GROUP BY 1, 2, 3, 4)
        SELECT l.name, count(*), sum(l.start - l.returned) FROM ({LAUNCHED}) l
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.rowid = l.kernel
        JOIN first f ON (f.pid, f.device, f.stream, f.id) = (k.globalPid, k.deviceId, k.streamId, k.correlationId)
        WHERE l.start > l.returned AND l.start = f.begin GROUP BY l.name"""
    return export.sums(sql, "CUPTI_ACTIVITY_KIND_RUNTIME") if "CUPTI_ACTIVITY_KIND_KERNEL" in export.tables else {}


def range_kernels(export, text, join):
    if not {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"} <= export.tables:
        return {}
    sql = f"""
        WITH l AS MATERIALIZED ({LAUNCHED}),
             n AS MATERIALIZED (SELECT {text} AS range, t.domainId AS domain, t.start AS first, t."end" AS last, t.globalTid AS thread
                   FROM NVTX_EVENTS t {join} WHERE t.eventType IN (59, 70, 71))
        SELECT range || char(10) || name, count(*), sum(ns) FROM (
            SELECT DISTINCT n.range, n.domain, l.kernel, l.name, l.ns FROM l JOIN n ON n.thread = l.thread
            WHERE n.first <= l.called AND (n.last IS NULL OR l.called < n.last)) GROUP BY 1"""
    return export.sums(sql, "NVTX_EVENTS")


def answer(path):
    export = Export(path)
    by_name = 'SELECT s.value, count(*), sum(t."end" - t.start) FROM {0} t LEFT JOIN StringIds s ON s.id = t.{1} WHERE {2} AND {3} GROUP BY t.{1}'
    timed = TIMED.replace("start", "t.start").replace('"end"', 't."end"')
    api, kernel, nvtx = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"
    has_text_id = nvtx in export.tables and "textId" in export.columns(nvtx)
    text = "coalesce(t.text, s.value, '')" if has_text_id else "coalesce(t.text, '')"
    join = "LEFT JOIN StringIds s ON s.id = t.textId AND t.text IS NULL" if has_text_id else ""
    ranges = f'SELECT {text}, count(*), sum(t."end" - t.start) FROM NVTX_EVENTS t {join} WHERE t.eventType IN ({{}}) AND {timed} GROUP BY 1'
    # Classes 31 and 32 mark start and end of the tracing itself.
    has_class = "OSRT_API" in export.tables and "eventClass" in export.columns("OSRT_API")
    no_marker = "t.eventClass NOT IN (31, 32)" if has_class else "1"
    moved = {}
    copies = f'SELECT copyKind, count(*), sum("end" - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE {TIMED} GROUP BY 1'
    for kind, count, ns, size in export.query(copies, "CUPTI_ACTIVITY_KIND_MEMCPY"):
        entry = moved.setdefault(DIRECTIONS.get(kind, "Unknown"), [0, 0, 0])
        moved[DIRECTIONS.get(kind, "Unknown")] = [a + b for a, b in zip(entry, (count, ns, size))]
    sets = f'SELECT count(*), sum("end" - start), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE {TIMED} HAVING count(*) > 0'
    for row in export.query(sets, "CUPTI_ACTIVITY_KIND_MEMSET"):
        moved["Memset"] = list(row)
    never = export.query('SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71) AND "end" IS NULL', nvtx)
    graph = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    of_graph = f"SELECT count(*) FROM {{}} WHERE {TIMED} AND graphNodeId > 0"
    with_node = [table for table in WORK if table in export.tables and "graphNodeId" in export.columns(table)]
    nodes = sum(export.query(of_graph.format(table))[0][0] for table in with_node)
    return {
        "file": path,
        "rows": {table: export.query(f'SELECT count(*) FROM "{table}"')[0][0] for table in sorted(export.tables)},
        "kernels": export.sums(by_name.format(kernel, "demangledName", timed, "1"), kernel),
        "runtime": export.sums(by_name.format(api, "nameId", timed, "t.eventClass IS NOT 1"), api, True),
        "driver": export.sums(by_name.format(api, "nameId", timed, "t.eventClass = 1"), api, True),
        "os": export.sums(by_name.format("OSRT_API", "nameId", timed, no_marker), "OSRT_API"),
        "push_pop": export.sums(ranges.format("59, 70, 71"), nvtx),
        "start_end": export.sums(ranges.format("60"), nvtx),
        "bytes": moved,
        "queue": queue(export),
        "range_kernels": range_kernels(export, text, join),
        "never_ended": never[0][0] if never else 0,
        "devices": devices(export),
        "syncs": syncs(export),
        "graphs": export.query(f"SELECT start, graphId, graphExecId FROM {graph} WHERE {TIMED} ORDER BY 1", graph),
        "graph_nodes": nodes,
    }


def main():
    for path in sys.argv[1:]:
        try:
            print(json.dumps(answer(path)))
        except sqlite3.Error as error:
            print(json.dumps({"file": path, "error": str(error)}))


if __name__ == "__main__":
    main()
