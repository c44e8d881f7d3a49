// A libcuda without a GPU: cuInit loads the injection as the real one does.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) {
    static int is_done;
    (void)flags;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (is_done++ || !path) return 0;
    void *library = dlopen(path, RTLD_NOW);
    // A missing file is ignored, without a word.
    int (*init)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (init) init();
    return 0;
}
