#include "common/update/history.h"

#include "common/base/digest.h"

namespace tally {

uint64_t RoundHistory(uint64_t previous, const v1::RoundClosed& closed) {
  Digester digester;
  digester.AddUint64(previous);
  digester.AddUint64(closed.round());
  digester.AddUint64(closed.digest());
  return digester.Finish();
}

}  // namespace tally
