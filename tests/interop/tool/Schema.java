package hiveacid;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** The metastore's database, with Hive's own tables: an embedded Derby, or a PostgreSQL that has the user APP. */
final class Schema {
  static String url;

  private Schema() {}

  static Connection connect() throws SQLException {
    return DriverManager.getConnection(url, "APP", "mine");
  }

  static boolean isPostgres() {
    return url.startsWith("jdbc:postgresql:");
  }

  /** Runs a statement; rows as lines. */
  static List<String> run(String sql) throws SQLException {
    List<String> lines = new ArrayList<>();
    try (Connection connection = connect(); Statement statement = connection.createStatement()) {
      if (statement.execute(sql)) {
        ResultSet rows = statement.getResultSet();
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
          List<String> cells = new ArrayList<>();
          for (int column = 1; column <= columns; column++) cells.add(rows.getString(column));
          lines.add(String.join("\t", cells));
        }
      } else {
        lines.add("updated\t" + statement.getUpdateCount());
      }
    }
    return lines;
  }

  /** Makes the tables, where they are not there, from the script of Hive's release. */
  static void ensure(Path script, boolean four) throws Exception {
    try (Connection connection = connect(); Statement statement = connection.createStatement()) {
      try {
        if (statement.executeQuery("select \"SCHEMA_VERSION\" from \"VERSION\"").next()) return;
      } catch (SQLException isNew) {
        // no tables yet
      }
      for (String sql : statements(Files.readString(script))) statement.execute(sql);
      if (four) for (String sql : FROM_4_0_TO_4_1) {
        // other databases have other indexes
        statement.execute(isPostgres() ? sql.replace("drop index ", "drop index if exists ") : sql);
      }
    }
  }

  /** Statements of a script for the database's own tool. */
  private static List<String> statements(String text) {
    StringBuilder kept = new StringBuilder();
    text.lines().filter(line -> !line.strip().startsWith("--") && !line.startsWith("\\") && !line.strip().startsWith("/*"))
        .forEach(line -> kept.append(line).append('\n'));
    List<String> found = new ArrayList<>();
    for (String sql : Script.split(kept.toString())) {
      if (!sql.toUpperCase().startsWith("RUN ")) found.add(sql);
    }
    return found;
  }

  /** The server's artifact of 4.1.0 is not published; its tables differ from 4.0's in these. */
  private static final String[] FROM_4_0_TO_4_1 = {
    "drop index \"TAB_COL_STATS_IDX\"",
    "drop index \"PCS_STATS_IDX\"",
    "alter table \"TAB_COL_STATS\" drop column \"CAT_NAME\"",
    "alter table \"TAB_COL_STATS\" drop column \"DB_NAME\"",
    "alter table \"TAB_COL_STATS\" drop column \"TABLE_NAME\"",
    "alter table \"PART_COL_STATS\" drop column \"CAT_NAME\"",
    "alter table \"PART_COL_STATS\" drop column \"DB_NAME\"",
    "alter table \"PART_COL_STATS\" drop column \"TABLE_NAME\"",
    "alter table \"PART_COL_STATS\" drop column \"PARTITION_NAME\"",
    "create index \"TAB_COL_STATS_IDX\" on \"TAB_COL_STATS\" (\"TBL_ID\", \"COLUMN_NAME\")",
    "create index \"PCS_STATS_IDX\" on \"PART_COL_STATS\" (\"PART_ID\", \"COLUMN_NAME\")",
    "create unique index \"TXN_STATE_IDX\" on \"TXNS\" (\"TXN_STATE\", \"TXN_ID\")",
    "update \"VERSION\" set \"SCHEMA_VERSION\" = '4.1.0' where \"VER_ID\" = 1",
  };
}
