import Foundation

/// Random ranks below `count`. The rank r is drawn about 1 / (r + 1)^theta as often as the first.
///
/// Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating billion-record
/// synthetic databases", SIGMOD 1994, section 3.
package struct Zipfian: Sendable {
  package let itemCount: Int
  @usableFromInline let count: Double
  @usableFromInline let zeta: Double
  @usableFromInline let second: Double
  @usableFromInline let alpha: Double
  @usableFromInline let eta: Double

  /// - Complexity: O(count).
  package init(count: Int, theta: Double = 0.99) {
    itemCount = count
    self.count = Double(count)
    zeta = (1...count).reduce(0) { $0 + 1 / pow(Double($1), theta) }
    second = 1 + pow(0.5, theta)
    alpha = 1 / (1 - theta)
    eta = (1 - pow(2 / Double(count), 1 - theta)) / (1 - second / zeta)
  }

  @inlinable
  package func next(_ generator: inout SplitMix64) -> Int {
    let uniform = Double.random(in: 0..<1, using: &generator)
    let scaled = uniform * zeta
    if scaled < 1 { return 0 }
    if scaled < second { return 1 }
    return min(Int(count * pow(eta * uniform - eta + 1, alpha)), Int(count) - 1)
  }
}
