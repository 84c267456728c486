import Foundation

/// A table of text: rows by name, columns aligned to the right.
package struct Grid {
  private var rows: [[String]]

  /// - Parameter heads: the heads of all columns, including the column of names.
  package init(_ heads: [String]) { rows = [heads] }

  package mutating func add(_ name: String, _ cells: [String]) { rows.append([name] + cells) }

  package func print() {
    let columnCount = rows.map(\.count).max() ?? 0
    let widths = (0..<columnCount).map { column in
      rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    for row in rows {
      let cells = row.enumerated().map { column, cell in
        let blanks = String(repeating: " ", count: widths[column] - cell.count)
        return column == 0 ? cell + blanks : blanks + cell
      }
      let line = cells.joined(separator: "  ")
      Swift.print(line.lastIndex { $0 != " " }.map { line[...$0] } ?? "")
    }
  }
}

package func decimal(_ figure: Double, _ places: Int = 2) -> String {
  String(format: "%.\(places)f", figure)
}

package func megabytes(_ bytes: UInt64) -> String { decimal(Double(bytes) / 1e6, 1) }

/// Returns the median; of two middle figures, the higher.
package func median(_ figures: [Double]) -> Double { figures.sorted()[figures.count / 2] }

extension Duration {
  package var milliseconds: Double {
    Double(components.seconds) * 1e3 + Double(components.attoseconds) / 1e15
  }
}
