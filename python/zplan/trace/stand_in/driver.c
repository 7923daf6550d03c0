/* A libcuda.so.1 that PyTorch's libraries can be loaded with; nothing of it is called. */
#define CALL(name) \
  int name() { return 0; }
CALL(cuInit)
CALL(cuCtxGetCurrent)
CALL(cuCtxSetCurrent)
CALL(cuDeviceGet)
CALL(cuDeviceGetAttribute)
CALL(cuDevicePrimaryCtxRetain)
CALL(cuDriverGetVersion)
CALL(cuFuncGetAttribute)
CALL(cuFuncSetAttribute)
CALL(cuFuncSetCacheConfig)
CALL(cuGetErrorName)
CALL(cuLaunchCooperativeKernel)
CALL(cuLaunchKernel)
CALL(cuLinkAddData_v2)
CALL(cuLinkComplete)
CALL(cuLinkCreate_v2)
CALL(cuModuleGetFunction)
CALL(cuModuleLoad)
CALL(cuModuleLoadData)
CALL(cuModuleLoadDataEx)
CALL(cuModuleUnload)
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor)
CALL(cuPointerGetAttribute)
CALL(cuTensorMapEncodeTiled)
int cuGetErrorString(int error, const char **text) {
  *text = "stand-in";
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  if (flags) *flags = 0;
  if (active) *active = 1;
  return 0;
}
