package hiveacid;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hive.common.util.HiveVersionInfo;

/** A table as it is now: a copy of its directory, the rows that Hive returns, the facts about both. */
final class Snapshot {
  static final List<String> history = new ArrayList<>();
  private static final Comparator<String[]> BY_ROW_ID =
      Comparator.<String[]>comparingLong(row -> Long.parseLong(row[0]))
          .thenComparingLong(row -> Long.parseLong(row[1]))
          .thenComparingLong(row -> Long.parseLong(row[2]));

  private Snapshot() {}

  /** Writes {@code data/}, {@code query.tsv} and {@code meta.json} below {@code folder}. */
  static void take(Path folder, String name, String columns) throws Exception {
    Files.createDirectories(folder);
    String database = name.contains(".") ? name.replaceAll("\\..*", "") : SessionState.get().getCurrentDatabase();
    String table = name.replaceAll(".*\\.", "");
    IMetaStoreClient metastore = Hive.get(Tool.sessionConf()).getMSC();
    Table definition = metastore.getTable(database, table);
    Map<String, String> parameters = new TreeMap<>(definition.getParameters());
    boolean transactional = "true".equalsIgnoreCase(parameters.get("transactional"));
    boolean acid = transactional && !"insert_only".equalsIgnoreCase(parameters.get("transactional_properties"));
    Map<String, Object> meta = new LinkedHashMap<>();
    meta.put("engine", "Apache Hive " + HiveVersionInfo.getVersion() + ", " + Tool.sessionConf().get("hive.execution.engine"));
    meta.put("table", database + "." + table);
    meta.put("acid", acid);
    meta.put("transactional", transactional);
    meta.put("valid_txn_list", metastore.getValidTxns().writeToString());
    meta.put("valid_write_id_list", transactional ? metastore.getValidWriteIds(database + "." + table).writeToString() : "");
    meta.put("location", definition.getSd().getLocation());
    if (definition.getSd().getLocation().startsWith("file:")) { // others are read where they are
      Tool.copy(Path.of(definition.getSd().getLocation().replaceFirst("^file:/*", "/")), folder.resolve("data"));
    }
    String sql = "select " + (acid ? "t.row__id.writeid, t.row__id.bucketid, t.row__id.rowid, " : "") + columns + " from " + name + " t";
    int rows = query(sql, folder.resolve("query.tsv"), acid);
    meta.put("query", sql);
    meta.put("input_format", definition.getSd().getInputFormat());
    meta.put("serde", definition.getSd().getSerdeInfo().getSerializationLib());
    meta.put("columns", pairs(definition.getSd().getCols()));
    meta.put("partition_columns", pairs(definition.getPartitionKeys()));
    meta.put("bucket_columns", definition.getSd().getBucketCols());
    meta.put("num_buckets", definition.getSd().getNumBuckets());
    meta.put("parameters", parameters);
    meta.put("partitions", definition.getPartitionKeys().isEmpty() ? List.of() : metastore.listPartitionNames(database, table, (short) -1));
    meta.put("statements", history.stream().filter(line -> concerns(line, table)).toList());
    Tool.write(folder.resolve("meta.json"), new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(meta) + "\n");
    Tool.out.println("snap\t" + folder.getFileName() + "\t" + rows + " rows");
  }

  private static boolean concerns(String statement, String table) {
    return statement.contains(table) || statement.matches("(set |!hook).*|!worker|!cleaner");
  }

  /** Sorted by row id, else as texts, after a header. */
  private static int query(String sql, Path file, boolean acid) throws Exception {
    List<String> rows = new ArrayList<>();
    String header = Tool.run(sql, rows::add);
    rows.sort(Comparator.naturalOrder());
    if (acid) rows.sort(Comparator.comparing(row -> row.split("\t", 4), BY_ROW_ID));
    rows.add(0, header);
    Tool.write(file, String.join("\n", rows) + "\n");
    return rows.size() - 1;
  }

  private static List<List<String>> pairs(List<FieldSchema> columns) {
    return columns.stream().map(column -> List.of(column.getName(), column.getType())).toList();
  }
}
