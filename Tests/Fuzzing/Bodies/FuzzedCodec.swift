import MoraineFormat

/// One implementation of LZ4, with functions that copy their results.
struct FuzzedCodec {
  /// Decompresses a block to a length, with a dictionary or without one. Nil when it is refused.
  let decompressed: (_ stored: [UInt8], _ length: Int, _ dictionary: [UInt8]?) -> [UInt8]?
  /// The same with a decompressor that keeps the dictionary.
  let kept: (_ stored: [UInt8], _ length: Int, _ dictionary: [UInt8]) -> [UInt8]?
  /// Makes a compressor for several values.
  let compressor: () -> ([UInt8]) -> [UInt8]?
  /// Makes a compressor with a dictionary for several values.
  let sharingCompressor: (_ dictionary: [UInt8]) -> ([UInt8]) -> [UInt8]?

  /// The LZ4 in Swift, then `liblz4` if the build has it.
  static var all: [FuzzedCodec] {
    #if LIBLZ4 && !PortableLZ4
      [portable, system]
    #else
      [portable]
    #endif
  }

  private static var portable: FuzzedCodec {
    FuzzedCodec(
      decompressed: { stored, length, dictionary in
        decompressed(stored, length, dictionary) { stored, target, dictionary in
          guard let dictionary else {
            return PortableDecompressor.decompress(stored, into: target)
          }
          return PortableDecompressor.decompress(stored, into: target, dictionary: dictionary)
        }
      },
      kept: { stored, length, dictionary in
        var decompressor = PortableDictionaryDecompressor(dictionary: dictionary)
        return stored.withExactBytes {
          decompressor.decompress($0, rawLength: length).map { Array($0) }
        }
      },
      compressor: {
        var compressor = PortableCompressor()
        return { value in value.withExactBytes { compressor.compress($0).map { Array($0) } } }
      },
      sharingCompressor: { dictionary in
        var compressor = PortableDictionaryCompressor(dictionary: dictionary)
        return { value in value.withExactBytes { compressor.compress($0).map { Array($0) } } }
      })
  }

  #if LIBLZ4 && !PortableLZ4
    private static var system: FuzzedCodec {
      FuzzedCodec(
        decompressed: { stored, length, dictionary in
          decompressed(stored, length, dictionary) { stored, target, dictionary in
            guard let dictionary else {
              return SystemDecompressor.decompress(stored, into: target)
            }
            return SystemDecompressor.decompress(stored, into: target, dictionary: dictionary)
          }
        },
        kept: { stored, length, dictionary in
          var decompressor = SystemDictionaryDecompressor(dictionary: dictionary)
          return stored.withExactBytes {
            decompressor.decompress($0, rawLength: length).map { Array($0) }
          }
        },
        compressor: {
          var compressor = SystemCompressor()
          return { value in value.withExactBytes { compressor.compress($0).map { Array($0) } } }
        },
        sharingCompressor: { dictionary in
          var compressor = SystemDictionaryCompressor(dictionary: dictionary)
          return { value in value.withExactBytes { compressor.compress($0).map { Array($0) } } }
        })
    }
  #endif

  private static func decompressed(
    _ stored: [UInt8], _ length: Int, _ dictionary: [UInt8]?,
    _ body: (
      UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer, UnsafeRawBufferPointer?
    ) -> Bool
  ) -> [UInt8]? {
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
    defer { target.deallocate() }
    let isSound = stored.withExactBytes { stored in
      guard let dictionary else { return body(stored, target, nil) }
      return dictionary.withExactBytes { body(stored, target, $0) }
    }
    return isSound ? Array(target) : nil
  }
}
