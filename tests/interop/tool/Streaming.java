package hiveacid;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TxnToWriteId;
import org.apache.hadoop.hive.metastore.utils.MetaStoreUtils;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe;
import org.apache.hadoop.io.Text;

/** Streaming ingest as Hive's own client drives it: a batch of transactions into bucket 0 of one delta. */
final class Streaming {
  private Streaming() {}

  /**
   * {@code stream TABLE N key=value ...}: N transactions of {@code rows} rows (3), keys from {@code from} (1) on, of
   * which the first {@code commit} (N) are committed, but {@code abort=I} aborted. The others stay open, and the file
   * too, unless {@code close=true}.
   */
  static void batch(String[] words) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (String word : Arrays.copyOfRange(words, 3, words.length)) options.put(word.replaceAll("=.*", ""), word.replaceAll("^[^=]*=", ""));
    String database = SessionState.get().getCurrentDatabase();
    int size = Integer.parseInt(words[2]);
    int rows = Integer.parseInt(options.getOrDefault("rows", "3"));
    int committed = Integer.parseInt(options.getOrDefault("commit", words[2]));
    int aborted = Integer.parseInt(options.getOrDefault("abort", "0"));
    long key = Long.parseLong(options.getOrDefault("from", "1"));
    IMetaStoreClient metastore = Hive.get(Tool.sessionConf()).getMSC();
    Table table = metastore.getTable(database, words[1]);
    List<Long> txns = metastore.openTxns("streaming", size).getTxn_ids();
    List<TxnToWriteId> ids = metastore.allocateTableWriteIdsBatch(txns, database, words[1]);
    LazySimpleSerDe parser = parser(table);
    RecordUpdater updater = updater(table, parser, ids.get(0).getWriteId(), ids.get(size - 1).getWriteId());
    for (int n = 0; n < committed; n++) {
      lock(metastore, database, words[1], txns.get(n));
      long writeId = ids.get(n).getWriteId();
      for (int row = 0; row < rows; row++, key++) {
        updater.insert(writeId, parser.deserialize(new Text(key + ",w" + writeId + "-" + row)));
      }
      updater.flush();
      if (n + 1 == aborted) metastore.rollbackTxn(txns.get(n));
      else metastore.commitTxn(txns.get(n));
    }
    if ("true".equals(options.get("close"))) {
      updater.close(false);
      for (long txn : txns.subList(committed, size)) metastore.rollbackTxn(txn);
    }
    Tool.out.println("streamed\t" + txns + "\t" + ids);
  }

  private static LazySimpleSerDe parser(Table table) throws Exception {
    Properties properties = new Properties();
    properties.putAll(MetaStoreUtils.getTableMetadata(table));
    properties.setProperty("field.delim", ",");
    properties.setProperty("serialization.format", ",");
    LazySimpleSerDe parser = new LazySimpleSerDe();
    parser.initialize(Tool.sessionConf(), properties, null);
    return parser;
  }

  private static RecordUpdater updater(Table table, LazySimpleSerDe parser, long first, long last) throws Exception {
    Path location = new Path(table.getSd().getLocation());
    AcidOutputFormat.Options options =
        new AcidOutputFormat.Options(Tool.sessionConf())
            .filesystem(FileSystem.get(Tool.sessionConf()))
            .inspector(parser.getObjectInspector())
            .tableProperties(MetaStoreUtils.getTableMetadata(table))
            .bucket(0)
            .minimumWriteId(first)
            .maximumWriteId(last)
            .statementId(-1)
            .recordIdColumn(-1)
            .finalDestination(location);
    return new OrcOutputFormat().getRecordUpdater(location, options);
  }

  private static void lock(IMetaStoreClient metastore, String database, String table, long txn) throws Exception {
    LockComponent component = new LockComponent(LockType.SHARED_READ, LockLevel.TABLE, database);
    component.setTablename(table);
    component.setOperationType(DataOperationType.INSERT);
    component.setIsTransactional(true);
    LockRequest request = new LockRequest(List.of(component), "stream", "localhost");
    request.setTxnid(txn);
    metastore.lock(request);
  }
}
