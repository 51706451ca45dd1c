extern "C" __global__ void __launch_bounds__(16) main_kernel(float* __restrict__ A_ptr, float* __restrict__ C_ptr, float* __restrict__ W_ptr) {
  __shared__ alignas(64) float S_ptr[20];
  __shared__ alignas(64) float T_ptr[20];
  alignas(64) float R_ptr[1];
  R_ptr[0] = 0x0p+0f/*0.000000e+00*/;
  for (int k = 0; k < 4; ++k) {
    __syncthreads();
    S_ptr[((((int)threadIdx.y) * 5) + ((int)threadIdx.x))] = A_ptr[((((((int)blockIdx.y) * 64) + (((int)threadIdx.y) * 16)) + (k * 4)) + ((int)threadIdx.x))];
    T_ptr[((((int)threadIdx.y) * 5) + ((int)threadIdx.x))] = W_ptr[((((k * 32) + (((int)threadIdx.y) * 8)) + (((int)blockIdx.x) * 4)) + ((int)threadIdx.x))];
    __syncthreads();
    for (int m = 0; m < 4; ++m) {
      R_ptr[0] = (R_ptr[0] + (S_ptr[((((int)threadIdx.y) * 5) + m)] * T_ptr[((m * 5) + ((int)threadIdx.x))]));
    }
  }
  C_ptr[((((((int)blockIdx.y) * 32) + (((int)threadIdx.y) * 8)) + (((int)blockIdx.x) * 4)) + ((int)threadIdx.x))] = R_ptr[0];
}
