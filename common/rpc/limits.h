// Limits that both ends of a connection must agree on, declared once.
#pragma once

namespace tally {

// Of one gRPC message, sent or received, on either side.
inline constexpr int kMaxMessageBytes = 16 * 1024 * 1024;
// What a chunk's message may hold beside its payload.
inline constexpr int kMessageHeadroomBytes = 64 * 1024;
// Data in one FilePart of a model on its way up or down.
inline constexpr int kFilePartBytes = 1024 * 1024;

// An idle client pings so often; the server must permit more often than that, or it would answer
// with GOAWAY "too many pings". An answer may take the timeout: a busy peer is not a dead one.
inline constexpr int kKeepalivePingMs = 20'000;
inline constexpr int kKeepaliveTimeoutMs = 60'000;
inline constexpr int kKeepalivePermitMs = 10'000;

}  // namespace tally
