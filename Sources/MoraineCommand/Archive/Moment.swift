import ArgumentParser
import Foundation

/// A moment as people write it: ISO 8601, in UTC, or with the difference from it.
struct Moment: ExpressibleByArgument {
  let milliseconds: UInt64

  /// Reads a moment, and drops what is less than a millisecond. A parser that is lenient would take
  /// a moment that does not exist for another one, and ignore any text after it.
  init?(argument: String) {
    let form =
      #/
      ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}) (?: \.([0-9]+) )?
      (?: [Zz] | ([+\-]) ([0-9]{2}) (?: :? ([0-9]{2}) )? )
      /#
    guard let found = argument.wholeMatch(of: form) else { return nil }
    let (_, text, fraction, sign, hours, minutes) = found.output
    guard let seconds = Self.seconds(utc: "\(text)Z") else { return nil }
    let (hour, minute) = (Self.number(hours), Self.number(minutes))
    guard hour < 24, minute < 60 else { return nil }
    let ahead = (hour * 60 + minute) * 60 * (sign == "-" ? -1 : 1)
    let thousandths = Self.number("\(fraction ?? "")00".prefix(3))
    guard let moment = UInt64(exactly: (seconds - ahead) * 1000 + thousandths) else { return nil }
    milliseconds = moment
  }

  /// Returns the seconds since 1970, or nil when no clock and no calendar shows this text.
  private static func seconds(utc text: String) -> Int? {
    let style = Date.ISO8601FormatStyle()
    do {
      let date = try style.parse(text)
      return date.formatted(style) == text ? Int(date.timeIntervalSince1970) : nil
    } catch {
      return nil
    }
  }

  private static func number(_ digits: Substring?) -> Int { digits.flatMap { Int($0) } ?? 0 }

  static func text(milliseconds: UInt64) -> String {
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    return Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(style)
  }
}
