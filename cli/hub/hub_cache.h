#pragma once
// Keeps downloaded configs where the hubs' own libraries look for them.

#include <string>
#include <string_view>

namespace zplan {

/// Writes a config.json into the cache of huggingface_hub as that does: the blob by its tag, a link to it in
/// the snapshot of its revision, then refs/main. Each appears whole or not at all; what is there stays as it
/// is. Does nothing where folder, revision or tag is missing or not plain, or the folder cannot be written.
void keep_config(const std::string& cache, std::string_view id, const std::string& revision,
                 const std::string& tag, const std::string& config);

/// Writes it where ModelScope's library keeps a repository: "models/ORG/NAME/config.json".
void keep_modelscope_config(const std::string& cache, std::string_view id, const std::string& config);

}  // namespace zplan
