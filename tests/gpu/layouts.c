// Compares NVIDIA's headers with the places at which src/inject/src/records.rs reads the records of CUPTI.
//
// Compile with -DKERNEL=CUpti_ActivityKernel9 and so on, the types that the header says are those of its version.
// Prints one line for each record, and what differs; exits with the number of differences.
#include <cupti.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int n_wrong;
#define NAME(type) #type
#define NAMED(type) NAME(type)
#define AT(type, field, expected) \
    if (offsetof(type, field) != expected) printf("%s.%s: %zu, not %d\n", NAMED(type), #field, offsetof(type, field), expected), n_wrong++
#define SIZE(type, at_least) \
    printf("%s: %zu bytes\n", NAMED(type), sizeof(type)); \
    if (sizeof(type) < at_least) printf("%s is shorter than what is read: %d\n", NAMED(type), at_least), n_wrong++
#define VALUE(name, expected) \
    if (name != expected) printf("%s: %d, not %d\n", #name, (int)name, expected), n_wrong++

int main(void) {
    SIZE(KERNEL, 160);
    AT(KERNEL, kind, 0); AT(KERNEL, registersPerThread, 6); AT(KERNEL, start, 16); AT(KERNEL, end, 24);
    AT(KERNEL, completed, 32); AT(KERNEL, deviceId, 40); AT(KERNEL, contextId, 44); AT(KERNEL, streamId, 48);
    AT(KERNEL, gridX, 52); AT(KERNEL, gridZ, 60); AT(KERNEL, blockX, 64); AT(KERNEL, blockZ, 72);
    AT(KERNEL, staticSharedMemory, 76); AT(KERNEL, dynamicSharedMemory, 80); AT(KERNEL, localMemoryPerThread, 84);
    AT(KERNEL, localMemoryTotal, 88); AT(KERNEL, correlationId, 92); AT(KERNEL, gridId, 96); AT(KERNEL, name, 104);
    AT(KERNEL, queued, 120); AT(KERNEL, submitted, 128); AT(KERNEL, launchType, 136); AT(KERNEL, graphNodeId, 144);
    AT(KERNEL, graphId, 156);
    SIZE(MEMCPY, 80);
    AT(MEMCPY, copyKind, 4); AT(MEMCPY, srcKind, 5); AT(MEMCPY, dstKind, 6); AT(MEMCPY, bytes, 8);
    AT(MEMCPY, start, 16); AT(MEMCPY, end, 24); AT(MEMCPY, deviceId, 32); AT(MEMCPY, contextId, 36);
    AT(MEMCPY, streamId, 40); AT(MEMCPY, correlationId, 44); AT(MEMCPY, graphNodeId, 64); AT(MEMCPY, graphId, 72);
    SIZE(MEMCPY_PEER, 88);
    AT(MEMCPY_PEER, bytes, 8); AT(MEMCPY_PEER, start, 16); AT(MEMCPY_PEER, end, 24); AT(MEMCPY_PEER, deviceId, 32);
    AT(MEMCPY_PEER, streamId, 40); AT(MEMCPY_PEER, srcDeviceId, 44); AT(MEMCPY_PEER, dstDeviceId, 52);
    AT(MEMCPY_PEER, correlationId, 60); AT(MEMCPY_PEER, graphNodeId, 72); AT(MEMCPY_PEER, graphId, 80);
    SIZE(MEMSET, 80);
    AT(MEMSET, value, 4); AT(MEMSET, bytes, 8); AT(MEMSET, start, 16); AT(MEMSET, end, 24); AT(MEMSET, deviceId, 32);
    AT(MEMSET, contextId, 36); AT(MEMSET, streamId, 40); AT(MEMSET, correlationId, 44); AT(MEMSET, memoryKind, 50);
    AT(MEMSET, graphNodeId, 64); AT(MEMSET, graphId, 72);
    SIZE(MEMORY, 64);
    AT(MEMORY, memoryOperationType, 4); AT(MEMORY, memoryKind, 8); AT(MEMORY, correlationId, 12);
    AT(MEMORY, address, 16); AT(MEMORY, bytes, 24); AT(MEMORY, timestamp, 32); AT(MEMORY, PC, 40);
    AT(MEMORY, processId, 48); AT(MEMORY, deviceId, 52); AT(MEMORY, contextId, 56); AT(MEMORY, streamId, 60);
    SIZE(CUpti_ActivityAPI, 40);
    AT(CUpti_ActivityAPI, cbid, 4); AT(CUpti_ActivityAPI, start, 8); AT(CUpti_ActivityAPI, end, 16);
    AT(CUpti_ActivityAPI, processId, 24); AT(CUpti_ActivityAPI, threadId, 28); AT(CUpti_ActivityAPI, correlationId, 32);
    AT(CUpti_ActivityAPI, returnValue, 36);
    SIZE(CUpti_ActivityExternalCorrelation, 24);
    AT(CUpti_ActivityExternalCorrelation, externalKind, 4); AT(CUpti_ActivityExternalCorrelation, externalId, 8);
    AT(CUpti_ActivityExternalCorrelation, correlationId, 16);
    SIZE(SYNC, 40);
    AT(SYNC, type, 4); AT(SYNC, start, 8); AT(SYNC, end, 16); AT(SYNC, correlationId, 24); AT(SYNC, contextId, 28);
    AT(SYNC, streamId, 32); AT(SYNC, cudaEventId, 36);
    SIZE(EVENT, 24);
    AT(EVENT, correlationId, 4); AT(EVENT, contextId, 8); AT(EVENT, streamId, 12); AT(EVENT, eventId, 16);
    SIZE(GRAPH, 40);
    AT(GRAPH, correlationId, 4); AT(GRAPH, start, 8); AT(GRAPH, end, 16); AT(GRAPH, deviceId, 24); AT(GRAPH, graphId, 28);
    AT(GRAPH, contextId, 32); AT(GRAPH, streamId, 36);
    SIZE(OVERHEAD, 40);
    AT(OVERHEAD, overheadKind, 4); AT(OVERHEAD, objectKind, 8); AT(OVERHEAD, start, 24); AT(OVERHEAD, end, 32);

    VALUE(CUPTI_ACTIVITY_KIND_MEMCPY, 1); VALUE(CUPTI_ACTIVITY_KIND_MEMSET, 2); VALUE(CUPTI_ACTIVITY_KIND_DRIVER, 4);
    VALUE(CUPTI_ACTIVITY_KIND_RUNTIME, 5); VALUE(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10);
    VALUE(CUPTI_ACTIVITY_KIND_OVERHEAD, 17); VALUE(CUPTI_ACTIVITY_KIND_MEMCPY2, 22);
    VALUE(CUPTI_ACTIVITY_KIND_CUDA_EVENT, 36); VALUE(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 38);
    VALUE(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 39); VALUE(CUPTI_ACTIVITY_KIND_MEMORY2, 49);
    VALUE(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 51); VALUE(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39);
    VALUE(CUPTI_CB_DOMAIN_DRIVER_API, 1); VALUE(CUPTI_CB_DOMAIN_RUNTIME_API, 2);
    VALUE(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, 1); VALUE(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, 1);
    VALUE(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, 4); VALUE(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 10);
    VALUE(CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, 7); VALUE(CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, 0x30000);
    VALUE(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, 1); VALUE(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, 2);
    printf("CUPTI_API_VERSION %d: %d differences\n", CUPTI_API_VERSION, n_wrong);
    return n_wrong != 0;
}
