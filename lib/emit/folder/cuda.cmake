# A GPU as the device. NVRTC, cuBLASLt, cuSOLVER, cuFFT and NCCL are loaded when first called: nothing links them.
find_package(CUDAToolkit 12.8 REQUIRED)
if(is_top_level)
  set(TSC_ARCHS "${TSC_PROGRAM_ARCHS}" CACHE STRING "GPUs that nvcc compiles for, sm_90 and so on")
elseif(NOT DEFINED TSC_ARCHS)
  set(TSC_ARCHS "${TSC_PROGRAM_ARCHS}")
endif()
if(NOT TSC_ARCHS)
  message(FATAL_ERROR "TSC-E008: the program is planned for the host alone: compile it with tsc compile --arch=sm_90, or "
    "say with -DTSC_ARCHS=sm_90 which GPU shall run it as it is.")
endif()
find_program(TSC_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} DOC "nvcc; OFF: NVRTC compiles when weights are loaded")

target_sources(${target} PRIVATE
  device_cuda.cpp engine/cuda_communicator.cpp engine/cuda_compiler.cpp engine/cuda_device.cpp
  engine/cuda_fourier.cpp engine/cuda_library.cpp engine/cuda_marks.cpp engine/cuda_matmul.cpp engine/cuda_plain_matmul.cpp engine/cuda_solver.cpp engine/cuda_batched_solver.cpp engine/nccl.cpp)
target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(${target} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
set_target_properties(${target} PROPERTIES
  BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}" INSTALL_RPATH "${CUDAToolkit_LIBRARY_DIR}")
file(GLOB kernel_files ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/prelude/*.h)

if(NOT TSC_NVCC)
  message(STATUS "Kernels: as text, compiled by NVRTC when weights are loaded")
  target_compile_definitions(${target} PRIVATE
    TSC_MODEL_FOLDER="${CMAKE_CURRENT_SOURCE_DIR}")
  set_source_files_properties(device_cuda.cpp PROPERTIES OBJECT_DEPENDS "${kernel_files}")
  return()
endif()

message(STATUS "Kernels: compiled by ${TSC_NVCC} for ${TSC_ARCHS}")
# The program's architecture whose plan a GPU runs: its own, else the newest that is not newer, else the first.
function(tsc_plan_of arch result)
  string(REPLACE "sm_" "" number ${arch})
  list(GET TSC_PROGRAM_ARCHS 0 best)
  set(best_number 0)
  foreach(plan IN LISTS TSC_PROGRAM_ARCHS)
    string(REPLACE "sm_" "" plan_number ${plan})
    if(plan_number LESS_EQUAL number AND plan_number GREATER best_number)
      set(best ${plan})
      set(best_number ${plan_number})
    endif()
  endforeach()
  set(${result} ${best} PARENT_SCOPE)
endfunction()
# nvcc's options for a unit whose kernels are of the plans for `plans`: machine code for each GPU that runs one of them,
# and PTX of the newest for GPUs that come later.
function(tsc_nvcc_targets plans result)
  set(targets "")
  set(newest 0)
  foreach(arch IN LISTS TSC_ARCHS)
    if(TSC_PROGRAM_ARCHS)
      tsc_plan_of(${arch} plan)
      if(NOT plan IN_LIST plans)
        continue()
      endif()
    endif()
    string(REPLACE "sm_" "" number ${arch})
    set(own ${number})
    if(number STREQUAL "90") # with what only Hopper has (wgmma)
      set(own 90a)
    endif()
    list(APPEND targets -gencode arch=compute_${own},code=sm_${own})
    if(number GREATER newest)
      set(newest ${number})
    endif()
  endforeach()
  if(newest EQUAL 0) # none of the GPUs that are asked for: PTX is an image, too
    list(APPEND plans ${TSC_PROGRAM_ARCHS}) # a plan for the host alone has none
    list(GET plans 0 plan)
    string(REPLACE "sm_" "" newest ${plan})
  endif()
  list(APPEND targets -gencode arch=compute_${newest},code=compute_${newest})
  set(${result} ${targets} PARENT_SCOPE)
endfunction()
set(images "")
foreach(unit IN LISTS TSC_UNITS)
  tsc_nvcc_targets("${TSC_UNIT_${unit}_ARCHS}" nvcc_targets)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/unit_${unit}.fatbin)
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${TSC_NVCC} -fatbin -std=c++17 -lineinfo -fmad=true ${nvcc_targets}
            -ccbin ${CMAKE_CXX_COMPILER} -I${CMAKE_CURRENT_SOURCE_DIR}/prelude
            -I${CMAKE_CURRENT_SOURCE_DIR}/kernels
            -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/kernels/units/unit_${unit}.cu
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/units/unit_${unit}.cu ${kernel_files}
    VERBATIM)
  list(APPEND images ${image})
endforeach()
target_compile_definitions(${target} PRIVATE
  TSC_EMBEDDED_IMAGES TSC_IMAGE_FOLDER="${CMAKE_CURRENT_BINARY_DIR}")
set_source_files_properties(device_cuda.cpp PROPERTIES OBJECT_DEPENDS "${images}")
