import Foundation
import Moraine
import SystemPackage

/// An end with an exit code of its own.
struct Failure: Error {
  let code: Int32
  let message: String?

  static let notFound = Failure(code: 1, message: nil)

  /// Whoever read our output has had enough (`| head`). Nothing went wrong: quiet, and code 0.
  static let readerGone = Failure(code: 0, message: nil)

  static func usage(_ message: String) -> Failure { Failure(code: 2, message: message) }

  /// What the operating system said of a stream or a file.
  init(_ action: String, _ error: any Error) {
    let errno = Self.errno(of: error)
    let isFull = errno == .noSpace || errno == .diskQuotaExceeded
    let reason = errno.map { "\($0)" } ?? "\(error)"
    self.init(code: isFull ? 6 : 5, message: "cannot \(action): \(reason)")
  }

  /// What the operating system said, also where Foundation has wrapped it.
  private static func errno(of error: any Error) -> Errno? {
    if let errno = error as? Errno { return errno }
    let wrapped = error as NSError
    if wrapped.domain == NSPOSIXErrorDomain { return Errno(rawValue: CInt(wrapped.code)) }
    let inner = wrapped.userInfo[NSUnderlyingErrorKey] as? any Error
    return inner.flatMap { errno(of: $0) }
  }

  init(code: Int32, message: String?) {
    self.code = code
    self.message = message
  }
}

extension StoreError: JSONRepresentable {
  /// One object: code, file, offset and message; null where it does not apply.
  var json: String {
    let object: JSONObject = [
      "code": code.description, "file": file, "offset": offset, "message": message,
    ]
    return object.json
  }

  /// The codes that the top level's help lists.
  var exitCode: Int32 {
    switch code {
    case .keyTooLarge, .valueTooLarge, .notAStore, .readOnly, .sequenceUnavailable,
      .cursorExpired, .cursorDiverged, .historyDiverged, .invalidArgument:
      2
    case .corrupted: 3
    case .locked: 4
    case .noSpace: 6
    case .newerFormat: 7
    default: 5
    }
  }
}
