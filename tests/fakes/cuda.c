// A libcuda without a GPU: it loads the injection as the real one does, and runs kernels in no time but on a clock.
//
// FAKE_CUDA_NO_DEVICE  set: cuInit fails as it does without a GPU
// FAKE_CUDA_VERSION    what cuDriverGetVersion says; 13000 if not set
//
// Each stream is done with its work at a moment of the clock; work begins there or at its launch. What ran is told to
// the fake libcupti, if the program has it.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_NS = 2000000, SMALL_NS = 3000, COPY_NS = 500000, SET_NS = 10000, CALL_NS = 1000 };
typedef struct { uint64_t end; int id, is_capturing; } stream_t;
typedef struct { uint64_t at; } event_t;
typedef struct { int n; } graph_t;
static stream_t null_stream = {0, 7, 0};
static uint32_t correlation;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

typedef void (*tell_t)(int, const char *, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, uint64_t, uint64_t);
// Kind 0 is a kernel, 1 a copy in, 2 a copy out, 3 a memset, 4 an allocation, 5 a free.
static void tell(int what, const char *name, uint64_t call, uint64_t start, uint64_t end, int stream, uint64_t bytes, uint64_t address) {
    static tell_t told;
    static int is_known;
    if (!is_known++) {
        const char *path = getenv("LACUNA_CUPTI");
        void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
        if (library) told = (tell_t)dlsym(library, "fake_cupti_tell");
    }
    if (told) told(what, name, call, start, end, correlation, stream, bytes, address);
}

static void run(int what, const char *name, stream_t *stream, uint64_t ns, uint64_t bytes) {
    uint64_t call = now();
    uint64_t start = stream->end > call + CALL_NS ? stream->end : call + CALL_NS;
    stream->end = start + ns;
    tell(what, name, call, start, stream->end, stream->id, bytes, 0);
}

int cuDriverGetVersion(int *version) {
    const char *text = getenv("FAKE_CUDA_VERSION");
    return *version = text ? atoi(text) : 13000, 0;
}
int cuInit(unsigned flags) {
    static int is_done;
    (void)flags;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (!is_done++ && path) {
        void *library = dlopen(path, RTLD_NOW);
        // A missing file is ignored, without a word.
        int (*init)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
        if (init) init();
    }
    return getenv("FAKE_CUDA_NO_DEVICE") ? 100 : 0;
}
int cuGetErrorName(int error, const char **text) { return *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE", 0; }
int cuGetErrorString(int error, const char **text) { return *text = error == 100 ? "no CUDA-capable device is detected" : "fake", 0; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int bytes, int device) { return snprintf(name, bytes, "Fake GPU %d", device), 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 1ull << 34, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return (void)device, *value = attribute == 10 ? 32 : attribute, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = (void *)1, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxSetCurrent(void *context) { return (void)context, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadData(void **module, const void *image) { return *module = (void *)image, strstr(image, ".visible .entry lacuna_large") ? 0 : 218; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return (void)module, *function = strdup(name), 0; }
int cuStreamCreate(stream_t **stream, unsigned flags) {
    static int id = 7;
    (void)flags;
    *stream = calloc(1, sizeof(stream_t));
    return (*stream)->id = id++, 0;
}
int cuStreamSynchronize(stream_t *stream) {
    uint64_t time = now();
    if (stream->end > time) usleep((stream->end - time) / 1000 + 1);
    return 0;
}
int cuStreamWaitEvent(stream_t *stream, event_t *event, unsigned flags) {
    (void)flags;
    return stream->end = stream->end > event->at ? stream->end : event->at, 0;
}
int cuStreamBeginCapture_v2(stream_t *stream, int mode) { return (void)mode, stream->is_capturing = 1, 0; }
int cuStreamEndCapture(stream_t *stream, graph_t **graph) {
    *graph = calloc(1, sizeof(graph_t));
    (*graph)->n = stream->is_capturing - 1;
    return stream->is_capturing = 0;
}
int cuGraphInstantiateWithFlags(graph_t **exec, graph_t *graph, unsigned long long flags) { return (void)flags, *exec = graph, 0; }
int cuGraphLaunch(graph_t *graph, stream_t *stream) {
    correlation++;
    for (int i = 0; i < graph->n; i++) run(0, "lacuna_small", stream, SMALL_NS, 0);
    return 0;
}
int cuEventCreate(event_t **event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof(event_t)), 0; }
int cuEventRecord(event_t *event, stream_t *stream) {
    uint64_t time = now() + CALL_NS;
    return event->at = stream->end > time ? stream->end : time, 0;
}
int cuEventElapsedTime(float *ms, event_t *start, event_t *end) { return *ms = (end->at - start->at) / 1e6f, 0; }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    static uint64_t next = 0x7f0000000000;
    *address = next, next += bytes, correlation++;
    uint64_t call = now();
    return tell(4, "", call, call, call + CALL_NS, 0, bytes, *address), 0;
}
int cuMemFree_v2(uint64_t address) {
    correlation++;
    uint64_t call = now();
    return tell(5, "", call, call, call + CALL_NS, 0, 0, address), 0;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { return (void)flags, *address = malloc(bytes), 0; }
int cuMemFreeHost(void *address) { return free(address), 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    (void)to, (void)from, correlation++;
    return run(1, "", &null_stream, COPY_NS, bytes), 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, stream_t *stream) {
    (void)to, (void)from, correlation++;
    return run(1, "", stream, COPY_NS, bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, stream_t *stream) {
    (void)to, (void)from, correlation++;
    return run(2, "", stream, COPY_NS, bytes), 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, stream_t *stream) {
    (void)to, (void)value, correlation++;
    return run(3, "", stream, SET_NS, bytes), 0;
}
int cuLaunchKernel(const char *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, stream_t *stream, void **args, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)args, (void)extra;
    if (stream->is_capturing) return stream->is_capturing++, 0;
    correlation++;
    return run(0, name, stream, strcmp(name, "lacuna_large") ? SMALL_NS : LARGE_NS, 0), 0;
}
