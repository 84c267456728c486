import BenchmarkSupport
import Foundation
import Synchronization

/// The processor time that this process has used.
func processorSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// The bytes of this process's memory that no file has. The pages of mapped segments are not part
/// of it: the kernel takes them back when it needs memory.
func anonymousBytes() throws -> Int {
  let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
  for line in status.split(separator: "\n") where line.hasPrefix("RssAnon:") {
    let kilobytes = line.split(whereSeparator: { $0 == " " || $0 == "\t" })[1]
    return (Int(kilobytes) ?? 0) * 1024
  }
  throw BenchmarkFailure("this system does not say how much memory a process has")
}

/// Runs the body, and returns the highest number of bytes that it had, looked at each 2 ms on a
/// thread of its own.
func peakAnonymousBytes(_ body: () async throws -> Void) async throws -> Int {
  let peak = Peak()
  let thread = Thread {
    while !peak.isDone.load(ordering: .sequentiallyConsistent) {
      peak.note()
      usleep(2000)
    }
  }
  thread.start()
  defer { peak.isDone.store(true, ordering: .sequentiallyConsistent) }
  try await body()
  peak.note()
  return peak.bytes.load(ordering: .sequentiallyConsistent)
}

private final class Peak: Sendable {
  let bytes = Atomic(0)
  let isDone = Atomic(false)

  func note() {
    do {
      bytes.max(try anonymousBytes(), ordering: .sequentiallyConsistent)
    } catch {
      fatalError("\(error)")
    }
  }
}

/// Returns the figure below which the share of the sorted figures is.
func percentile(_ share: Double, _ figures: [Double]) -> Double {
  let sorted = figures.sorted()
  guard let last = sorted.indices.last else { return .nan }
  return sorted[min(last, Int(Double(sorted.count) * share))]
}

/// Runs the body, and returns its seconds.
func seconds(_ body: () async throws -> Void) async rethrows -> Double {
  try await ContinuousClock().measure(body).milliseconds / 1000
}
