import MoraineFuzzing
import MoraineStorage

// libFuzzer with one of our targets: `moraine-fuzz --target=NAME [arguments of libFuzzer]`.
// `moraine-fuzz --seeds` writes the first inputs. `main` belongs to libFuzzer; it ignores arguments
// that begin with two dashes, and passes them to the processes that it starts.

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// A C callback has no context.
private let target: FuzzTarget = {
  let prefix = "--target="
  let name = CommandLine.arguments.first { $0.hasPrefix(prefix) }?.dropFirst(prefix.count)
  guard let target = FuzzTarget(rawValue: String(name ?? "")) else {
    let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: " ")
    print("usage: moraine-fuzz --target=NAME [arguments of libFuzzer]; the targets: \(names)")
    exit(64)
  }
  return target
}()

@_cdecl("LLVMFuzzerInitialize")
public func initialize(
  _ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?
)
  -> CInt
{
  if CommandLine.arguments.contains("--seeds") {
    runBlocking { try await Seeds.write() }
    exit(0)
  }
  _ = target
  return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
public func runOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let input = Array(UnsafeBufferPointer(start: bytes, count: count))
  runBlocking { try await target.run(input) }
  return 0
}

/// Waits for the body, which runs as a task: libFuzzer calls on a thread that may block.
private func runBlocking(_ body: @escaping @Sendable () async throws -> Void) {
  let isDone = Monitor(false)
  Task.detached {
    do { try await body() } catch { fatalError("\(error)") }
    isDone.withLock {
      $0 = true
      isDone.signal()
    }
  }
  isDone.wait { isDone in isDone ? .done(()) : .forSignal }
}
