import Testing

@testable import MoraineCompare

/// Axes have round ticks, show values at the right positions, and trap on no value.
struct ScaleTests {
  @Test(arguments: [(1.0, 1.0), (1.4, 1), (1.6, 2), (2.9, 2), (3.1, 5), (6.9, 5), (7.1, 10)])
  func nearestNiceNumber(_ value: Double, _ nice: Double) {
    #expect(Scale.nice(value, .nearest) == nice)
    #expect(Scale.nice(value * 1_000, .nearest) == nice * 1_000)
  }

  @Test func niceNumbersBelowAndAbove() {
    #expect(Scale.nice(4.9, .down) == 2)
    #expect(Scale.nice(5, .down) == 5)
    #expect(Scale.nice(5, .up) == 5)
    #expect(Scale.nice(5.1, .up) == 10)
    #expect(Scale.nice(0.03, .down) == 0.02)
    #expect(Scale.nice(0.03, .up) == 0.05)
  }

  @Test func linearTicks() {
    #expect(Scale.linear(covering: [1.2, 9.7], pixels: (0, 100)).ticks == [0, 2, 4, 6, 8, 10])
    #expect(Scale.linear(covering: [0.31], pixels: (0, 100)).ticks == [0, 0.1, 0.2, 0.3, 0.4])
    let below = Scale.linear(covering: [-3, 4], pixels: (0, 100))
    #expect(below.ticks == [-4, -2, 0, 2, 4])
    #expect(below.position(0) == 50)
  }

  @Test func logarithmicTicks() throws {
    let short = try #require(Scale.logarithmic(covering: [0.3, 8], pixels: (0, 500)))
    #expect(short.ticks == [0.2, 0.5, 1, 2, 5, 10])
    let long = try #require(Scale.logarithmic(covering: [3, 80_000], pixels: (0, 400)))
    #expect(long.ticks == [10, 100, 1_000, 10_000, 100_000])
    let longest = try #require(Scale.logarithmic(covering: [1e-9, 1e9], pixels: (0, 400)))
    #expect(longest.ticks == [1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9])
  }

  @Test func places() throws {
    let scale = try #require(Scale.logarithmic(covering: [1, 10_000], pixels: (400, 0)))
    #expect(scale.position(1) == 400)
    #expect(abs(scale.position(100) - 200) < 1e-9)
    #expect(scale.position(10_000) == 0)
    // Values outside of the axis are at its end.
    #expect(scale.position(0.001) == 400)
    #expect(scale.position(1e300) == 0)
  }

  @Test func oneValueOnly() throws {
    let scale = try #require(Scale.logarithmic(covering: [7], pixels: (0, 100)))
    #expect(scale.low < 7 && scale.high > 7)
    #expect((0.0...100).contains(scale.position(7)))
    let zeros = Scale.linear(covering: [0, 0], pixels: (0, 100))
    #expect(zeros.position(0) == 0)
    #expect(zeros.high > zeros.low)
  }

  @Test(
    arguments: [
      [], [0], [-1], [.nan], [.infinity], [.leastNonzeroMagnitude, 1e308], [.leastNormalMagnitude],
      [-1e308, 1e308],
      [.greatestFiniteMagnitude], [1, .nan, 10],
    ] as [[Double]])
  func strangeValues(_ values: [Double]) {
    let scales = [
      Scale.linear(covering: values, pixels: (0, 100)),
      Scale.logarithmic(covering: values, pixels: (0, 100)),
    ].compactMap(\.self)
    for scale in scales {
      #expect(scale.high > scale.low)
      #expect((1...20).contains(scale.ticks.count))
      for value in values + [0, -1, 1e308, .nan, .infinity, -.infinity] {
        #expect((0.0...100).contains(scale.position(value)))
      }
    }
  }

  @Test func nothingAboveZeroHasNoLogarithm() {
    let scale = Scale.logarithmic(covering: [0, -1, .nan, .infinity], pixels: (0, 1))
    #expect(scale?.ticks == nil)
  }
}
