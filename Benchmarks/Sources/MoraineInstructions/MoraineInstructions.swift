import Foundation
import SystemPackage

/// Performs the operation of one row a number of times and ends, so that callgrind can count its
/// instructions.
///
/// Scripts/instructions runs the program with one count and with twice that count. The difference
/// is the cost of the operations, because everything else is the same in both runs.
@main
struct MoraineInstructions {
  static func main() {
    let arguments = CommandLine.arguments
    guard arguments.count == 4, let row = Row(rawValue: arguments[1]),
      let count = Int(arguments[2]), count > 0, count <= Rows.keyCount,
      count.isMultiple(of: Rows.unit)
    else {
      let rows = Row.allCases.map(\.rawValue).joined(separator: " ")
      let usage = """
        usage: MoraineInstructions ROW COUNT NEW-DIRECTORY
        rows: \(rows)
        COUNT: a multiple of \(Rows.unit), at most \(Rows.keyCount)

        """
      FileHandle.standardError.write(Data(usage.utf8))
      exit(2)
    }
    let rows = Rows(store: FilePath(arguments[3]))
    Task.detached {
      do { try await rows.run(row, count) } catch {
        FileHandle.standardError.write(Data("\(row): \(error)\n".utf8))
        exit(1)
      }
      // Do not close the store: closing would write as much as was stored, and would be counted.
      exit(0)
    }
    // An asynchronous `main` ends in `dispatch_main`, which calls sigsuspend with a mask in
    // read-only memory. Valgrind 3.19 writes to the mask, and crashes.
    while true { pause() }
  }
}
