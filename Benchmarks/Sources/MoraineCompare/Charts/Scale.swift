import Foundation

/// An axis: which values it covers, where its ticks stand, and where a value lies on the picture.
///
/// Ticks are round numbers: 1, 2 or 5 times a power of ten, after Paul Heckbert, "Nice numbers for
/// graph labels", in: Graphics Gems, 1990.
struct Scale: Sendable {
  private(set) var low: Double
  private(set) var high: Double
  private(set) var ticks: [Double]
  private(set) var isLogarithmic = false
  /// Where `low` and `high` lie on the picture; the first may be the greater, as y grows downwards.
  let pixels: (low: Double, high: Double)

  /// What is greater, or nearer to zero, is drawn as if it were this: no arithmetic overflows.
  private static let limit = 1e18

  /// Covers zero and all values that are numbers.
  static func linear(
    covering values: [Double], pixels: (low: Double, high: Double), tickCount: Int = 6
  ) -> Scale {
    let values = values.filter(\.isFinite).map { min(max($0, -limit), limit) }
    let (least, greatest) = (min(values.min() ?? 0, 0), max(values.max() ?? 0, 0))
    let span = greatest - least > 1 / limit ? greatest - least : 1
    let step = nice(nice(span, .up) / Double(max(tickCount, 2) - 1), .nearest)
    // Counted in steps and not added up, so that 0.3 is not 0.30000000000000004.
    let steps = (least / step).rounded(.down)...((least + span) / step).rounded(.up)
    let ticks = stride(from: steps.lowerBound, through: steps.upperBound, by: 1).map {
      step < 1 ? $0 / (1 / step).rounded() : $0 * step
    }
    return Scale(low: ticks[0], high: ticks[ticks.count - 1], ticks: ticks, pixels: pixels)
  }

  /// Covers all values above zero; nil where there are none. Every power of ten has a tick, where
  /// there is room 2 and 5 as well, on a long axis only some.
  static func logarithmic(
    covering values: [Double], pixels: (low: Double, high: Double)
  ) -> Scale? {
    let values = values.filter { $0.isFinite && $0 > 0 }.map { min(max($0, 1 / limit), limit) }
    guard var least = values.min(), var greatest = values.max() else { return nil }
    if least == greatest { (least, greatest) = (least / 2, greatest * 2) }
    let (low, high) = (nice(least, .down), nice(greatest, .up))
    let decades = log10(high / low)
    let exponents = Int(log10(low).rounded(.down))...Int(log10(high).rounded(.up))
    let every = max(1, Int((decades / 7).rounded(.up)))
    // Wide enough for 1,000 beside 2,000.
    let isRoomy = abs(pixels.high - pixels.low) / decades >= 160
    var ticks: [Double] = []
    for exponent in exponents where exponent.isMultiple(of: every) {
      let factors = isRoomy ? [1.0, 2, 5] : [1.0]
      ticks += factors.map { $0 * power(exponent) }
    }
    // A hair of room: 5e-07 is not always 5 * 1e-07.
    ticks = ticks.filter { $0 > low * 0.999 && $0 < high * 1.001 }
    var scale = Scale(low: low, high: high, ticks: ticks, pixels: pixels)
    scale.isLogarithmic = true
    return scale
  }

  /// So many places at even distances, a tick at each: 0, 1, 2 and so on.
  static func steps(_ count: Int, pixels: (low: Double, high: Double)) -> Scale {
    let ticks = (0..<max(count, 1)).map(Double.init)
    return Scale(low: 0, high: max(ticks[ticks.count - 1], 1), ticks: ticks, pixels: pixels)
  }

  private init(low: Double, high: Double, ticks: [Double], pixels: (low: Double, high: Double)) {
    (self.low, self.high, self.ticks, self.pixels) = (low, high, ticks, pixels)
  }

  /// Where the value lies on the picture; what the axis does not cover lies at its end.
  func position(_ value: Double) -> Double {
    guard value.isFinite else { return value > 0 ? pixels.high : pixels.low }
    let value = min(max(value, low), high)
    let share =
      isLogarithmic ? log10(value / low) / log10(high / low) : (value - low) / (high - low)
    return pixels.low + share * (pixels.high - pixels.low)
  }
}

extension Scale {
  enum Direction { case down, nearest, up }

  /// 1, 2, 5 or 10 times a power of ten: the next below, the nearest, the next above.
  static func nice(_ value: Double, _ direction: Direction) -> Double {
    guard value.isFinite, value > 0 else { return 1 }
    let exponent = Int(log10(value).rounded(.down))
    let fraction = value / power(exponent)
    let factor: Double =
      switch direction {
      // Where the division leaves 1.9999999 of a 2, it is a 2.
      case .down: [5, 2].first { fraction >= $0 * (1 - 1e-9) } ?? 1
      case .nearest: fraction < 1.5 ? 1 : fraction < 3 ? 2 : fraction < 7 ? 5 : 10
      case .up: [1, 2, 5].first { fraction <= $0 * (1 + 1e-9) } ?? 10
      }
    return factor * power(exponent)
  }

  /// The double next to a power of ten; dividing by 1,000 is exact where times 0.001 is not.
  private static func power(_ exponent: Int) -> Double {
    exponent < 0 ? 1 / pow(10, Double(-exponent)) : pow(10, Double(exponent))
  }
}
