import Foundation

/// An axis: the range of its values, its ticks, and the position of a value on the picture.
///
/// Ticks are round numbers: 1, 2 or 5 times a power of ten, after Paul Heckbert, "Nice numbers for
/// graph labels", in: Graphics Gems, 1990.
struct Scale: Sendable {
  private(set) var low: Double
  private(set) var high: Double
  private(set) var ticks: [Double]
  private(set) var isLogarithmic = false
  /// Positions of `low` and `high` on the picture. The first may be greater, because y grows
  /// downwards.
  let pixels: (low: Double, high: Double)

  /// Limit for values: larger ones, and those nearer to zero, are drawn as this limit, so that no
  /// arithmetic overflows.
  private static let limit = 1e18

  /// Returns a scale that covers zero and all values that are numbers.
  static func linear(
    covering values: [Double], pixels: (low: Double, high: Double), tickCount: Int = 6
  ) -> Scale {
    let values = values.filter(\.isFinite).map { min(max($0, -limit), limit) }
    let (least, greatest) = (min(values.min() ?? 0, 0), max(values.max() ?? 0, 0))
    let span = greatest - least > 1 / limit ? greatest - least : 1
    let step = nice(nice(span, .up) / Double(max(tickCount, 2) - 1), .nearest)
    // Multiply the steps instead of adding them, so that 0.3 is not 0.30000000000000004.
    let steps = (least / step).rounded(.down)...((least + span) / step).rounded(.up)
    let ticks = stride(from: steps.lowerBound, through: steps.upperBound, by: 1).map {
      step < 1 ? $0 / (1 / step).rounded() : $0 * step
    }
    return Scale(low: ticks[0], high: ticks[ticks.count - 1], ticks: ticks, pixels: pixels)
  }

  /// Returns a scale that covers all values above zero, or nil where there are none. Every power of
  /// ten has a tick; a roomy axis also has ticks at 2 and 5, and a long axis omits some powers.
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
    // Whether the text 1,000 fits next to 2,000.
    let isRoomy = abs(pixels.high - pixels.low) / decades >= 160
    var ticks: [Double] = []
    for exponent in exponents where exponent.isMultiple(of: every) {
      let factors = isRoomy ? [1.0, 2, 5] : [1.0]
      ticks += factors.map { $0 * power(exponent) }
    }
    // A small tolerance: 5e-07 is not always equal to 5 * 1e-07.
    ticks = ticks.filter { $0 > low * 0.999 && $0 < high * 1.001 }
    var scale = Scale(low: low, high: high, ticks: ticks, pixels: pixels)
    scale.isLogarithmic = true
    return scale
  }

  /// Returns a scale of `count` places at even distances, each with a tick: 0, 1, 2 and so on.
  static func steps(_ count: Int, pixels: (low: Double, high: Double)) -> Scale {
    let ticks = (0..<max(count, 1)).map(Double.init)
    return Scale(low: 0, high: max(ticks[ticks.count - 1], 1), ticks: ticks, pixels: pixels)
  }

  private init(low: Double, high: Double, ticks: [Double], pixels: (low: Double, high: Double)) {
    (self.low, self.high, self.ticks, self.pixels) = (low, high, ticks, pixels)
  }

  /// Returns the position of a value on the picture. Values outside of the axis are at its end.
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

  /// Returns 1, 2, 5 or 10 times a power of ten: the next below, the nearest, or the next above.
  static func nice(_ value: Double, _ direction: Direction) -> Double {
    guard value.isFinite, value > 0 else { return 1 }
    let exponent = Int(log10(value).rounded(.down))
    let fraction = value / power(exponent)
    let factor: Double =
      switch direction {
      // Treat 1.9999999, a rounding error of the division, as 2.
      case .down: [5, 2].first { fraction >= $0 * (1 - 1e-9) } ?? 1
      case .nearest: fraction < 1.5 ? 1 : fraction < 3 ? 2 : fraction < 7 ? 5 : 10
      case .up: [1, 2, 5].first { fraction <= $0 * (1 + 1e-9) } ?? 10
      }
    return factor * power(exponent)
  }

  /// Returns the double nearest to a power of ten. Division by 1,000 is exact; multiplication by
  /// 0.001 is not.
  private static func power(_ exponent: Int) -> Double {
    exponent < 0 ? 1 / pow(10, Double(-exponent)) : pow(10, Double(exponent))
  }
}
