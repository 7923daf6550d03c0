#include "planner/frameworks/framework.h"

namespace zplan {

const FrameworkSpec& spec(Framework framework) {
  switch (framework) {
    case Framework::fsdp: return fsdp_spec();
    case Framework::torch: return ddp_spec();
    case Framework::deepspeed: break;
  }
  return deepspeed_spec();
}

}  // namespace zplan
