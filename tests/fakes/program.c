// A program that is recorded: it initializes CUDA and uses NVTX as its header does.
//
// Arguments, in order: cuda (cuInit), nvtx (ranges), fork (a child that uses both, then its own end), flush (waits for
// a file to grow), wait (for a signal), crash (SIGKILL), fail (exit code 3).
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

// The part of nvtxDetail that a tool sees: places for functions, and the table that leads to them.
typedef void (*function_t)(void);
static function_t core[16], core2[16];
static function_t *core_table[16], *core2_table[16];

static int get_module(uint32_t module, function_t ***table, unsigned *size) {
    for (int i = 1; i < 16; i++) core_table[i] = &core[i], core2_table[i] = &core2[i];
    *table = module == 1 ? core_table : module == 5 ? core2_table : NULL;
    *size = 16;
    return *table != NULL;
}
static struct { size_t size; int (*get)(uint32_t, function_t ***, unsigned *); } callbacks = {sizeof callbacks, get_module};
static const void *get_export_table(uint32_t id) { return id == 1 ? &callbacks : NULL; }

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union { uint64_t u64; int32_t i32; double f64; } payload;
    int32_t message_type;
    const void *message;
} attributes_t;

static void load_nvtx(void) {
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    if (!library) fprintf(stderr, "%s\n", dlerror()), exit(9);
    int (*init)(const void *(*)(uint32_t)) = (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
    if (!init || init(get_export_table) != 1) exit(8);
}

static void push(const char *name) { ((int (*)(const char *))core[9])(name); }
static void pop(void) { ((int (*)(void))core[11])(); }
static uint64_t crossing;
static void *other_thread(void *arg) {
    push("on another thread"), usleep(1000), pop();
    ((void (*)(uint64_t))core[7])(crossing);
    return arg;
}

static void use_nvtx(void) {
    load_nvtx();
    push("step \"1\"\n");
    push("inner"), usleep(2000), pop();
    pop();
    uint64_t domain = ((uint64_t(*)(const char *))core2[12])("Domain A");
    uint64_t message = ((uint64_t(*)(uint64_t, const char *))core2[10])(domain, "registered");
    attributes_t attributes = {3, sizeof attributes, 0, 0, 0, 5, 0, {.i32 = -5}, 3, (void *)message};
    ((int (*)(uint64_t, const attributes_t *))core2[4])(domain, &attributes);
    usleep(1000);
    ((int (*)(uint64_t))core2[5])(domain);
    attributes = (attributes_t){3, sizeof attributes, 0, 0, 0, 3, 0, {.f64 = 0.5}, 2, L"wide \x00b5"};
    ((void (*)(const attributes_t *))core[1])(&attributes);
    crossing = ((uint64_t(*)(const char *))core[5])("crosses threads");
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    pop();  // One too many.
    push("never ends");
}

static void use_cuda(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) fprintf(stderr, "%s\n", dlerror()), exit(9);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    if (init(0) != 0) exit(7);
}

int main(int n, char **args) {
    for (int i = 1; i < n; i++) {
        if (!strcmp(args[i], "cuda")) use_cuda();
        if (!strcmp(args[i], "nvtx")) use_nvtx();
        if (!strcmp(args[i], "fork")) {
            pid_t child = fork();
            if (child == 0) {
                push("of the child"), pop();  // Not recorded, and must not hang.
                exit(0);
            }
            int status;
            waitpid(child, &status, 0);
            if (status != 0) exit(6);
        }
        if (!strcmp(args[i], "sleep")) usleep(400000);
        if (!strcmp(args[i], "wait")) for (puts("ready"), fflush(stdout);;) pause();
        if (!strcmp(args[i], "crash")) kill(getpid(), SIGKILL);
        if (!strcmp(args[i], "fail")) exit(3);
    }
    return 0;
}
