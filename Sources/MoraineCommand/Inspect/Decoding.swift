import MoraineFormat

/// Decodes the start of a file; a failure names the file and the offset.
func decoded<Result>(
  _ bytes: [UInt8], _ file: String, hint: String = "",
  _ body: (UnsafeRawBufferPointer) throws -> Result
) throws -> Result {
  do {
    return try bytes.withUnsafeBytes(body)
  } catch let error as FormatError {
    throw Failure(
      code: error.kind == .newer ? 7 : 3,
      message: "\(error.reason) [\(file) at byte \(error.offset)]\(hint)")
  }
}
