# cmake --install: the library, its headers, the weights if the folder has them, and what find_package(NAME) reads.
include(GNUInstallDirs)
set(name ${TSC_MODEL_NAME})
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
install(TARGETS ${target} EXPORT ${name}Targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Of its own for each model: two may come from two versions of tsc.
install(FILES ${name}_model.h tsc_model.h tsc_model.hpp DESTINATION include/${name})
set(config "# Gives the target ${name}::${name} and, if the model came with weights, ${name}_WEIGHTS.\n")
string(APPEND config "include(\${CMAKE_CURRENT_LIST_DIR}/${name}Targets.cmake)\n")
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/weights.safetensors)
  install(FILES weights.safetensors DESTINATION ${CMAKE_INSTALL_DATADIR}/${name})
  file(RELATIVE_PATH weights ${CMAKE_INSTALL_FULL_LIBDIR}/cmake/${name} ${CMAKE_INSTALL_FULL_DATADIR}/${name})
  string(APPEND config
    "get_filename_component(${name}_WEIGHTS \"\${CMAKE_CURRENT_LIST_DIR}/${weights}/weights.safetensors\" ABSOLUTE)\n")
endif()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}Config.cmake "${config}")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}Config.cmake DESTINATION ${package_folder})
install(EXPORT ${name}Targets NAMESPACE ${name}:: DESTINATION ${package_folder})
