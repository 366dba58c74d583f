// What a model is called in the programs of others.
#pragma once

#include <string>

namespace tsc::emit {

/// `name` as an identifier that no other thing of the folder has: letters, digits and _, at most
/// 64, a letter first. What is none becomes _, nothing becomes "model".
std::string model_name(const std::string &name);
/// UserError (usage) TSC-E011 unless model_name leaves `name` as it is.
void check_model_name(const std::string &name);

/// The header NAME_model.h, which declares the one function that the program of others calls.
std::string model_header(const std::string &name);
/// What the linker lets others see.
std::string exports(const std::string &name);

} // namespace tsc::emit
