import Foundation
import Synchronization

/// Progress of a long command, on standard error. Prints nothing during the first second, and
/// nothing if standard error is no terminal.
final class ProgressBar: Sendable {
  private struct State {
    var drawn: ContinuousClock.Instant?
  }

  private let verb: String
  private let isShown: Bool
  private let began = ContinuousClock.now
  private let state = Mutex(State())

  init(_ verb: String) {
    self.verb = verb
    let terminal = ProcessInfo.processInfo.environment["TERM"] ?? "dumb"
    isShown = isatty(STDERR_FILENO) == 1 && terminal != "dumb"
  }

  func update(_ completed: UInt64, of total: UInt64?) {
    guard isShown else { return }
    let now = ContinuousClock.now
    guard now - began > .seconds(1) else { return }
    state.withLock { state in
      if let drawn = state.drawn, now - drawn < .milliseconds(100) { return }
      state.drawn = now
      let seconds = (now - began) / .seconds(1)
      draw(
        Self.line(verb, completed, of: total, seconds: seconds, columns: Self.terminalColumns()))
    }
  }

  /// Shows a text instead of the bar, for a step whose progress is not known.
  func say(_ text: String) {
    guard isShown, ContinuousClock.now - began > .seconds(1) else { return }
    state.withLock { state in
      state.drawn = .now
      draw(String(text.prefix(max(0, Self.terminalColumns() - 1))))
    }
  }

  /// Erases the bar, so that the next output begins on an empty line.
  func finish() {
    guard isShown else { return }
    state.withLock { state in
      if state.drawn != nil { draw("") }
      state.drawn = nil
    }
  }

  private func draw(_ line: String) {
    Output.toTerminal("\r\u{1B}[K\(line)")
  }

  private static func terminalColumns() -> Int {
    var size = winsize()
    let answer = ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size)
    return answer == 0 && size.ws_col > 0 ? Int(size.ws_col) : 80
  }

  /// Returns the text of the bar, cut to the width of the terminal: a wrapped line cannot be
  /// redrawn.
  static func line(
    _ verb: String, _ completed: UInt64, of total: UInt64?, seconds: Double, columns: Int
  ) -> String {
    let rate = seconds > 0 ? Double(completed) / seconds : 0
    var text = "\(verb)  \(Units.bytes(completed))"
    if let total { text += " of \(Units.bytes(total))" }
    text += ", \(Units.bytes(UInt64(rate)))/s"
    if let total, total > 0 {
      let share = min(1, Double(completed) / Double(total))
      if rate > 0 { text += ", \(Units.clock(Double(total) * (1 - share) / rate)) left" }
      let width = min(16, columns - text.count - 9)
      if width >= 8 {
        let full = Int(share * Double(width))
        let bar = String(repeating: "#", count: full) + String(repeating: ".", count: width - full)
        text = String(format: "%3d%% [", Int(share * 100)) + bar + "] " + text
      }
    }
    return String(text.prefix(max(0, columns - 1)))
  }
}
