/// The colours of the engines. An engine has the same colour in every picture.
///
/// The colours are those of Masataka Okabe and Kei Ito, "Color Universal Design", 2008: people with
/// any of the common kinds of colour blindness tell them apart. Yellow comes last, as it is hard to
/// see on white. Moraine alone has the strongest colour, vermilion.
struct Palette: Sendable {
  private static let known = [
    "rocksdb": "#0072B2",  // blue
    "leveldb": "#56B4E9",  // sky blue
    "lmdb": "#009E73",  // bluish green
    "sqlite": "#CC79A7",  // reddish purple
    "tkrzw": "#E69F00",  // orange
    "grdb": Palette.ink,  // black
    // Gray, which is not one of these colours, for rows that are no engine.
    "pattern": "#8A8F98",
    "harness": "#8A8F98",
  ]
  private static let moraine = "#D55E00"  // vermilion
  /// Colours of engines that are added later, in their order.
  private static let others = ["#F0E442", "#B0A000"]
  /// Black on a white background, white on black.
  private static let ink = "ink"

  private let engines: [String]

  /// - Parameter engines: all engines of the report, so that each picture gives an engine the same
  ///   colour.
  init(engines: [String]) { self.engines = engines }

  /// Returns the class of the engine's elements.
  static func name(_ engine: String) -> String {
    "e-"
      + String(
        String.UnicodeScalarView(
          engine.unicodeScalars.filter { scalar in
            scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
          }))
  }

  func color(_ engine: String) -> String {
    if Report.isMoraine(engine) { return Palette.moraine }
    if let color = Palette.known[engine] { return color }
    let unknown = engines.filter { Palette.known[$0] == nil && !Report.isMoraine($0) }
    return Palette.others[(unknown.firstIndex(of: engine) ?? 0) % Palette.others.count]
  }

  /// The style sheet of a picture. It defines a background for the reader's light or dark mode, so
  /// the picture is readable on every page.
  var style: String {
    var rules = [
      "text{font:13px -apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif}",
      ".title{font-size:19px;font-weight:600}.bold{font-weight:600}.small{font-size:12px}",
      ".frame{stroke-width:1}.grid{stroke-width:1}.one{stroke-width:1.5}",
    ]
    // Of rules of equal weight the last one counts. So the colours of the engines come before the
    // rules that remove one of them.
    rules += engines.map { rule($0, ink: "#1F2328") }
    rules += Palette.theme(
      ink: "#1F2328", soft: "#59636E", grid: "#D8DEE4", back: "#FFFFFF", band: "#F6F8FA")
    rules += [
      ".line{stroke-width:2;stroke-linejoin:round}.thick{stroke-width:4}.dot{stroke-width:1.5}",
      ".lead{stroke-width:1;opacity:.75}.dash{stroke-dasharray:7 4}",
      ".halo{paint-order:stroke;stroke-width:3;stroke-linejoin:round}",
      "@media(prefers-color-scheme:dark){",
    ]
    rules += engines.filter { color($0) == Palette.ink }.map { rule($0, ink: "#F0F6FC") }
    rules += Palette.theme(
      ink: "#F0F6FC", soft: "#9DA7B3", grid: "#30363D", back: "#0D1117", band: "#151B23")
    return (rules + ["}"]).joined(separator: "\n")
  }

  private func rule(_ engine: String, ink: String) -> String {
    let color = color(engine) == Palette.ink ? ink : color(engine)
    return ".\(Palette.name(engine)){fill:\(color);stroke:\(color)}"
  }

  private static func theme(
    ink: String, soft: String, grid: String, back: String, band: String
  ) -> [String] {
    [
      "text{fill:\(ink)}.soft{fill:\(soft)}.band{fill:\(band)}",
      ".frame{fill:\(back);stroke:\(grid)}.grid{stroke:\(grid)}.one{stroke:\(ink)}",
      ".bar{stroke:none}.line,.lead{fill:none}.dot,.halo{stroke:\(back)}",
    ]
  }
}
