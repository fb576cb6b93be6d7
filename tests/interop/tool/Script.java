package hiveacid;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Text of statements. */
final class Script {
  private static final Pattern PIECE =
      Pattern.compile(
          "(--[^\n]*+)|(;)|'(?:[^'\\\\]++|\\\\.)*+'|\"(?:[^\"\\\\]++|\\\\.)*+\"|`[^`]*+`|.",
          Pattern.DOTALL);

  private Script() {}

  /** The statements, without comments. */
  static List<String> split(String text) {
    List<String> found = new ArrayList<>();
    StringBuilder statement = new StringBuilder();
    Matcher piece = PIECE.matcher(text + ";");
    while (piece.find()) {
      if (piece.group(2) != null) {
        if (!statement.toString().isBlank()) found.add(statement.toString().strip());
        statement.setLength(0);
      } else if (piece.group(1) == null) {
        statement.append(piece.group());
      }
    }
    return found;
  }

  /** The messages of an error and of what caused it, on one line. */
  static String told(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause != error && text.indexOf(String.valueOf(cause.getMessage())) >= 0) continue;
      text.append(text.length() == 0 ? "" : " <- ").append(cause.getClass().getName()).append(": ").append(cause.getMessage());
    }
    return text.toString().replaceAll("\\s+", " ");
  }
}
