package hiveacid;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/** Writes what Hive answers to the statements of a script (tests/data/README.md has the form). */
final class Recorder {
  private static final Pattern COMPACT = Pattern.compile("alter\\s+table\\s+\\S+.*\\bcompact\\s+'\\w+'.*", Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
  private static final String QUERY = "(?is)\\s*\\(?\\s*(select|with|show|desc|describe|values|from|explain)\\b.*";
  private static final String MULTI_INSERT = "(?is)\\s*(from|with)\\b.*\\binsert\\s+(into|overwrite)\\b.*";
  private static final int MESSAGE_LENGTH_MAX = 400;
  private static int scripts;

  private Recorder() {}

  static void record(Path script, Path work) throws Exception {
    String database = "recorded_" + scripts++;
    Tool.run("create database " + database, line -> {});
    Tool.run("use " + database, line -> {});
    StringBuilder answers = new StringBuilder();
    int number = 0;
    for (String sql : Script.split(Files.readString(script))) {
      answers.append("# ").append(++number);
      try {
        List<String> rows = new ArrayList<>();
        Tool.run(sql, rows::add);
        if (COMPACT.matcher(sql).matches()) {
          Tool.compactor(new Worker());
          Tool.compactor(new Cleaner());
        }
        boolean query = sql.matches(QUERY) && !sql.matches(MULTI_INSERT);
        answers.append(query ? " rows\n" : " ok\n");
        if (query) for (String row : rows) answers.append(escaped(row)).append('\n');
      } catch (Throwable error) {
        answers.append(" error\n").append(described(error, work, database)).append('\n');
      }
    }
    Tool.write(Path.of(script.toString().replaceAll("\\.sql$", ".out")), answers.toString());
    Tool.run("use default", line -> {});
    Tool.out.println("recorded\t" + script);
  }

  private static String escaped(String row) {
    return row.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r");
  }

  /** Hive's number, SQLSTATE and first line; of a failed task the innermost cause, too. */
  private static String described(Throwable error, Path work, String database) throws Exception {
    String code = "-";
    String state = "-";
    String text = String.valueOf(error.getMessage());
    if (error.getClass().getSimpleName().equals("CommandProcessorException")) { // which Hive 3.1 does not have
      int number = (Integer) told(error, "getErrorCode");
      number = number != 0 ? number : (Integer) told(error, "getResponseCode");
      code = number > 0 ? String.valueOf(number) : "-";
      state = String.valueOf(told(error, "getSqlState"));
    } else {
      text = error.getClass().getName() + ": " + text;
    }
    String first = text.split("\n")[0].replaceAll(" Vertex failed.*", "");
    Matcher cause = Pattern.compile("Caused by: (?!org\\.antlr)([^\n]*)").matcher(text + "\nCaused by: " + innermost(error));
    String last = null;
    while (cause.find()) last = cause.group(1);
    if (last != null && !first.contains(last.replaceAll("^[\\w.$]+: ", ""))) first += " <- " + last;
    Matcher numbered = Pattern.compile("\\[Error (\\d+)\\]").matcher(first);
    if (numbered.find()) code = numbered.group(1);
    first = first.replace("file:" + work, "WORK").replace(work.toString(), "WORK").replace(database, "default");
    first = first.replaceAll("(vertex|dag|attempt|task|application|container)_[0-9_]+", "$1_N").replaceAll("\\s+", " ");
    return code + "\t" + state + "\t" + first.substring(0, Math.min(MESSAGE_LENGTH_MAX, first.length()));
  }

  private static Object told(Throwable error, String getter) throws Exception {
    return error.getClass().getMethod(getter).invoke(error);
  }

  private static String innermost(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null) cause = cause.getCause();
    return cause.getClass().getName() + ": " + cause.getMessage();
  }
}
