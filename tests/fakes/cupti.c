// A libcupti without a GPU. It hands over records of the sizes that one generation of CUPTI has.
//
// FAKE_CUPTI_GENERATION  0 to 7: Kernel6 to Kernel13 with the other records of that time; 7 if not set
// FAKE_CUPTI_SUBSCRIBED  set: another profiler has the only place
// FAKE_CUPTI_VERSION     what cuptiGetVersion says; 130000 if not set
// FAKE_CUPTI_ENDLESS     set: each flush hands over the records once more
// FAKE_CUPTI_NO_CANNED   set: no records but those of the work that the fake libcuda ran
//
// Offsets and sizes are written here a second time, from NVIDIA's headers, so that they check those of the recorder.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void (*request_t)(uint8_t **, size_t *, size_t *);
typedef void (*complete_t)(void *, uint32_t, uint8_t *, size_t, size_t);
static request_t on_request;
static complete_t on_complete;
static uint64_t (*on_time)(void);
static uint8_t enabled[64];
static int has_system_ids, n_flushes;

enum { KERNEL, MEMCPY, MEMCPY_PEER, MEMSET, MEMORY, API, EXTERNAL, SYNC, EVENT, GRAPH, OVERHEAD, N_RECORDS };
static const int SIZES[8][N_RECORDS] = {
    {168, 80, 96, 80, 112, 40, 24, 40, 24, 48, 40},   {176, 88, 96, 80, 112, 40, 24, 40, 24, 48, 40},
    {200, 88, 96, 88, 120, 40, 24, 40, 24, 48, 40},   {208, 96, 96, 88, 128, 40, 24, 56, 56, 56, 56},
    {216, 96, 96, 88, 128, 40, 24, 56, 56, 56, 56},   {224, 96, 96, 88, 128, 40, 24, 56, 56, 56, 56},
    {232, 112, 96, 104, 128, 40, 24, 56, 56, 56, 56}, {248, 112, 96, 104, 128, 40, 24, 56, 56, 56, 56},
};

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}
static const int *sizes(void) { return SIZES[number("FAKE_CUPTI_GENERATION", 7)]; }

static int record_of(uint32_t kind) {
    switch (kind) {
    case 10: return KERNEL;
    case 1: return MEMCPY;
    case 22: return MEMCPY_PEER;
    case 2: return MEMSET;
    case 49: return MEMORY;
    case 4: case 5: return API;
    case 39: return EXTERNAL;
    case 38: return SYNC;
    case 36: return EVENT;
    case 51: return GRAPH;
    case 17: return OVERHEAD;
    }
    return -1;
}

int cuptiGetVersion(uint32_t *version) { return *version = number("FAKE_CUPTI_VERSION", 130000), 0; }
int cuptiSubscribe(void **subscriber, void *callback, void *data) {
    (void)callback, (void)data;
    *subscriber = (void *)1;
    return getenv("FAKE_CUPTI_SUBSCRIBED") ? 39 : 0;
}
int cuptiUnsubscribe(void *subscriber) { return (void)subscriber, 0; }
int cuptiSetThreadIdType(int type) { return has_system_ids = type, 0; }
int cuptiActivityRegisterTimestampCallback(uint64_t (*callback)(void)) { return on_time = callback, 0; }
int cuptiActivityFlushPeriod(uint32_t ms) { return (void)ms, 0; }
int cuptiActivityRegisterCallbacks(request_t request, complete_t complete) {
    on_request = request, on_complete = complete;
    return 0;
}
int cuptiActivityEnable(uint32_t kind) {
    if (kind == 45) abort();  // Its records are of another layout.
    return kind < 64 ? enabled[kind] = 1, 0 : 1;
}
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n) {
    return (void)context, (void)stream, *n = 0, 0;
}
int cuptiGetResultString(int result, const char **text) { return (void)result, *text = "CUPTI_ERROR_FAKE", 0; }
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name) {
    if (domain == 2) *name = cbid == 211 ? "cudaLaunchKernel_v7000" : cbid == 131 ? "cudaStreamSynchronize_v3020" : "cudaMalloc_v3020";
    else *name = cbid == 307 ? "cuLaunchKernel" : "cuMemAlloc_v2";
    return 0;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *at = *record ? *record + sizes()[record_of(*(uint32_t *)*record)] : buffer;
    if (at >= buffer + valid) return 12;
    return *record = at, 0;
}

static uint8_t *at;
static void put(int offset, const void *value, int bytes) { memcpy(at + offset, value, bytes); }
static void u8(int offset, uint8_t v) { put(offset, &v, 1); }
static void u16(int offset, uint16_t v) { put(offset, &v, 2); }
static void u32(int offset, uint32_t v) { put(offset, &v, 4); }
static void u64(int offset, uint64_t v) { put(offset, &v, 8); }

// Begins a record of this kind, filled with what none of its fields may be; 0 if the kind is not recorded.
static int begin(uint32_t kind) {
    if (!enabled[kind]) return 0;
    memset(at, 0xee, sizes()[record_of(kind)]);
    u32(0, kind);
    return 1;
}
static void end(void) { at += sizes()[record_of(*(uint32_t *)at)]; }

static void api(uint32_t kind, uint32_t cbid, uint64_t start, uint64_t stop, uint32_t correlation) {
    if (!begin(kind)) return;
    u32(4, cbid), u64(8, start), u64(16, stop), u32(24, getpid());
    u32(28, has_system_ids ? getpid() : 0), u32(32, correlation), u32(36, 0), end();
}
static void kernel(const char *name, uint64_t start, uint64_t stop, uint32_t correlation, uint64_t node) {
    if (!begin(10)) return;
    u16(6, 32), u64(16, start), u64(24, stop), u64(32, 0), u32(40, 1), u32(44, 1), u32(48, 7);
    u32(52, 108), u32(56, 2), u32(60, 1), u32(64, 256), u32(68, 1), u32(72, 1), u32(76, 1024), u32(80, 2048);
    u32(92, correlation), u64(104, (uint64_t)name), u64(144, node), u32(156, node ? 5 : 0), end();
}
static void memory(uint32_t operation, uint32_t kind, uint64_t address, uint64_t bytes, uint64_t when, uint32_t correlation) {
    if (!begin(49)) return;
    u32(4, operation), u32(8, kind), u32(12, correlation), u64(16, address), u64(24, bytes), u64(32, when);
    u32(48, getpid()), u32(52, 1), u32(56, 1), u32(60, 7), end();
}

static void fill(uint64_t t, uint32_t c) {
    // An allocation, within a call of the runtime, within which is one of the driver.
    memory(1, 3, 0x7000 + c, 4096, t + 150, c), memory(1, 2, 0x9000 + c, 512, t + 160, c);
    api(4, 243, t + 120, t + 180, c), api(5, 20, t + 100, t + 200, c);
    // A launch with an external id.
    if (begin(39)) u32(4, 0), u64(8, 77), u32(16, c + 1), end();
    api(5, 211, t + 300, t + 400, c + 1), kernel("_Z3addPfi", t + 1000, t + 3000, c + 1, 0);
    // A launch by the driver alone, of a kernel in a graph.
    api(4, 307, t + 500, t + 600, c + 2), kernel("plain \"name\"", t + 4000, t + 4500, c + 2, 99);
    if (begin(1)) {
        u8(4, 1), u8(5, 2), u8(6, 3), u64(8, 1 << 20), u64(16, t + 5000), u64(24, t + 6000), u32(32, 1), u32(36, 1);
        u32(40, 8), u32(44, c + 3), u64(64, 0), u32(72, 0), end();
    }
    if (begin(22)) {
        u8(4, 10), u8(5, 3), u8(6, 3), u64(8, 64), u64(16, t + 6000), u64(24, t + 6500), u32(32, 1), u32(36, 1);
        u32(40, 8), u32(44, 1), u32(48, 1), u32(52, 0), u32(56, 2), u32(60, c + 4), u64(72, 0), u32(80, 0), end();
    }
    if (begin(2)) {
        u32(4, 0), u64(8, 2048), u64(16, t + 7000), u64(24, t + 7100), u32(32, 1), u32(36, 1), u32(40, 8);
        u32(44, c + 5), u16(48, 0), u16(50, 3), u64(64, 0), u32(72, 0), end();
    }
    if (begin(36)) u32(4, c + 6), u32(8, 1), u32(12, 7), u32(16, 3), end();
    if (begin(38)) {
        u32(4, 2), u64(8, t + 7200), u64(16, t + 7300), u32(24, c + 7), u32(28, 1), u32(32, 8), u32(36, 3), end();
    }
    if (begin(38)) {
        u32(4, 3), u64(8, t + 7400), u64(16, t + 8000), u32(24, c + 8), u32(28, 1), u32(32, 7), u32(36, -1), end();
    }
    api(5, 131, t + 7390, t + 8010, c + 8);
    if (begin(51)) {
        u32(4, c + 9), u64(8, t + 8100), u64(16, t + 9100), u32(24, 1), u32(28, 6), u32(32, 1), u32(36, 7), end();
    }
    if (begin(17)) u32(4, 5 << 16), u32(8, 2), u64(24, t + 210), u64(32, t + 290), end();
    // Without times, as CUPTI has it of work that it lost sight of.
    kernel("lost", 0, 0, c + 10, 0);
    memory(2, 3, 0x7000 + c, 4096, t + 9000, c + 11), api(5, 20, t + 8990, t + 9010, c + 11);
}

// What the fake libcuda told, until it is flushed.
typedef struct { int what; const char *name; uint64_t call, start, end; uint32_t correlation, stream; uint64_t bytes, address; } told_t;
static told_t told[100000];
static int n_told, n_flushed;

void fake_cupti_tell(int what, const char *name, uint64_t call, uint64_t start, uint64_t end, uint32_t correlation,
                     uint32_t stream, uint64_t bytes, uint64_t address) {
    if (n_told < 100000) told[n_told++] = (told_t){what, name, call, start, end, correlation, stream, bytes, address};
}

static void put_told(const told_t *t) {
    static const uint32_t CBIDS[] = {307, 276, 279, 212, 243, 245};
    static uint32_t previous;
    uint8_t *begins = at;
    if (t->what == 4) memory(1, 3, t->address, t->bytes, t->start + 50, t->correlation);
    if (t->what == 5) memory(2, 3, t->address, t->bytes, t->start + 50, t->correlation);
    if (at > begins) at = begins, u32(52, 0), end();
    if (t->correlation != previous) api(4, CBIDS[t->what], t->call, t->call + 100, t->correlation);
    previous = t->correlation;
    if (t->what == 0) kernel(t->name, t->start, t->end, t->correlation, 0), at -= sizes()[KERNEL], u32(40, 0), u32(48, t->stream), end();
    if ((t->what == 1 || t->what == 2) && begin(1)) {
        u8(4, t->what), u8(5, t->what == 1 ? 2 : 3), u8(6, t->what == 1 ? 3 : 2), u64(8, t->bytes), u64(16, t->start);
        u64(24, t->end), u32(32, 0), u32(36, 1), u32(40, t->stream), u32(44, t->correlation), u64(64, 0), u32(72, 0), end();
    }
    if (t->what == 3 && begin(2)) {
        u32(4, 0), u64(8, t->bytes), u64(16, t->start), u64(24, t->end), u32(32, 0), u32(36, 1), u32(40, t->stream);
        u32(44, t->correlation), u16(48, 0), u16(50, 3), u64(64, 0), u32(72, 0), end();
    }
}

int cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    static uint64_t began;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!began) began = on_time ? on_time() : now.tv_sec * 1000000000ull + now.tv_nsec;
    if (!on_request) return 0;
    int has_canned = !getenv("FAKE_CUPTI_NO_CANNED") && (n_flushes == 0 || getenv("FAKE_CUPTI_ENDLESS"));
    while (has_canned || n_flushed < n_told) {
        uint8_t *buffer = NULL;
        size_t size = 0, max = 0;
        on_request(&buffer, &size, &max);
        if (!buffer) return 0;
        at = buffer;
        if (has_canned) fill(began + n_flushes * 20000ull, 100 + n_flushes * 20), n_flushes++;
        has_canned = 0;
        while (n_flushed < n_told && at - buffer + 1000 < (long)size) put_told(&told[n_flushed++]);
        on_complete(NULL, 0, buffer, size, at - buffer);
    }
    return 0;
}
