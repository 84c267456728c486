#if os(Linux)
  import Foundation
  import SystemPackage
  import Testing

  /// The end of a process by libdispatch, Swift's thread pool on Linux. Each second in which work
  /// waits for a thread, libdispatch opens `/proc/THREAD/stat`, and ends the process with SIGILL if
  /// no descriptor is left (`_dispatch_workq_count_runnable_workers`, libdispatch's
  /// `event/workqueue.c`). Such an end says nothing about a store, so the test begins again.
  struct DispatchMonitor {
    private static let report: StaticString = "libdispatch ended the process\n"
    private static let attempts = 100

    private var count = 0

    /// Reports an end by libdispatch to the test, instead of dying by SIGILL.
    static func reportItsTrap() throws {
      for line in try maps().split(separator: "\n") where line.contains("/libdispatch.so") {
        let ends = line.prefix { $0 != " " }.split(separator: "-").map { UInt($0, radix: 16)! }
        let before = code.isEmpty ? ends[0]..<ends[1] : code
        code = min(before.lowerBound, ends[0])..<max(before.upperBound, ends[1])
      }
      precondition(!code.isEmpty, "the process does not use libdispatch.so")
      var action = sigaction()
      action.sa_flags = SA_SIGINFO
      action.__sigaction_handler.sa_sigaction = { _, info, _ in
        let place = info?.pointee._sifields._sigfault.si_addr
        guard code.contains(UInt(bitPattern: place)) else {
          // The instruction runs again, and ends the process.
          signal(SIGILL, SIG_DFL)
          return
        }
        write(1, DispatchMonitor.report.utf8Start, DispatchMonitor.report.utf8CodeUnitCount)
        _exit(0)
      }
      guard sigaction(SIGILL, &action, nil) == 0 else {
        throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EINVAL)
      }
    }

    /// Foundation returns only the first 4 KiB of this file.
    private static func maps() throws -> String {
      let file = try FileDescriptor.open("/proc/self/maps", .readOnly)
      return try file.closeAfter {
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4096)
        while true {
          let count = try part.withUnsafeMutableBytes { try file.read(into: $0) }
          guard count > 0 else { return String(decoding: text, as: UTF8.self) }
          text += part.prefix(count)
        }
      }
    }

    /// - Returns: whether libdispatch ended the process, so that the test must begin again.
    mutating func hasEnded(_ result: ExitTest.Result?) -> Bool {
      guard
        let result,
        String(decoding: result.standardOutputContent, as: UTF8.self).contains("\(Self.report)")
      else {
        return false
      }
      count += 1
      guard count < Self.attempts else {
        Issue.record("libdispatch ended the process \(count) times")
        return false
      }
      return true
    }
  }

  /// The addresses of libdispatch. Written once, before the handler of the signal is set.
  nonisolated(unsafe) private var code: Range<UInt> = 0..<0
#endif
