#if S3
  /// A moment as signatures name it, in UTC.
  struct SigningTime: Hashable, Sendable {
    /// The moment to the second: `20130524T000000Z`.
    let stamp: String

    /// The day: `20130524`.
    var day: String { String(stamp.prefix(8)) }

    /// Creates a moment from milliseconds since the beginning of 1970, UTC.
    init(milliseconds: Int64) {
      let seconds = max(0, milliseconds / 1000)
      let (year, month, day) = CalendarDay.date(seconds / 86400)
      let rest = seconds % 86400
      stamp =
        Self.digits(year, 4) + Self.digits(month, 2) + Self.digits(day, 2) + "T"
        + Self.digits(rest / 3600, 2) + Self.digits(rest / 60 % 60, 2) + Self.digits(rest % 60, 2)
        + "Z"
    }

    private static func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }

    /// Reads the header `Date` of an answer: `Sun, 06 Nov 1994 08:49:37 GMT`.
    ///
    /// - Returns: milliseconds since the beginning of 1970; nil for another form.
    static func milliseconds(ofHeader text: String) -> Int64? {
      let parts = text.split(separator: " ")
      guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]),
        let month = months.firstIndex(of: String(parts[2])), let year = Int64(parts[3])
      else { return nil }
      let time = parts[4].split(separator: ":").map { Int64($0) }
      guard time.count == 3, let hour = time[0], let minute = time[1], let second = time[2],
        (1970...9999).contains(year), (1...31).contains(day), (0...23).contains(hour),
        (0...59).contains(minute), (0...60).contains(second)
      else { return nil }
      let days = CalendarDay.number(year, Int64(month) + 1, day)
      return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000
    }

    private static let months = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
  }

  /// Days since the beginning of 1970, and their dates.
  ///
  /// The year is counted from March, so that the leap day is its last day; 400 years have 146,097
  /// days. The rules are those of Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
  private enum CalendarDay {
    static func date(_ number: Int64) -> (year: Int64, month: Int64, day: Int64) {
      let shifted = number + 719_468
      let era = shifted / 146_097
      let dayOfEra = shifted % 146_097
      let yearOfEra =
        (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
      let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
      let shiftedMonth = (5 * dayOfYear + 2) / 153
      let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
      let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
      return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    static func number(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
      let shiftedYear = month <= 2 ? year - 1 : year
      let era = shiftedYear / 400
      let yearOfEra = shiftedYear % 400
      let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
      let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
      return era * 146_097 + dayOfEra - 719_468
    }
  }
#endif
