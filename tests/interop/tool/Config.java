package hiveacid;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;

/** Hive's settings: all in one process and below one directory, ACID on, nothing in the background. */
final class Config {
  private static final String GIVEN = "tool.set.";

  private Config() {}

  static HiveConf load(Path directory) throws Exception {
    Files.createDirectories(directory.resolve("warehouse"));
    Configuration site = new Configuration(false);
    String elsewhere = System.getProperty("tool.warehouse", "");
    String warehouse = elsewhere.isEmpty() ? directory.resolve("warehouse").toUri().toString() : elsewhere;
    String scratch = directory.resolve("tmp").toString();
    String[][] groups = {
      {
        "fs.defaultFS", "file:///",
        "fs.file.impl", PlainFiles.class.getName(),
        "hive.metastore.warehouse.dir", warehouse,
        "metastore.warehouse.dir", warehouse,
        "metastore.warehouse.external.dir", directory.resolve("external").toUri().toString(),
        "hive.exec.scratchdir", scratch + "/scratch",
        "hive.exec.local.scratchdir", scratch + "/local",
        "hive.downloaded.resources.dir", scratch + "/resources",
        "hive.querylog.location", scratch + "/log",
        "hadoop.tmp.dir", scratch + "/hadoop",
        "hive.user.install.directory", scratch + "/install",
        "hive.jar.directory", scratch + "/jars",
        "hive.query.results.cache.directory", scratch + "/cache",
      },
      { // ACID
        "hive.txn.manager", "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency", "true",
        "hive.exec.dynamic.partition.mode", "nonstrict",
        "metastore.compactor.initiator.on", "true",
        "metastore.metadata.transformer.class", " ", // CREATE TABLE without properties makes a managed table
        "hive.exec.post.hooks", Breaking.class.getName(),
      },
      { // execution, in this process
        "hive.execution.engine", Tool.FOUR ? "tez" : "mr",
        "tez.local.mode", "true",
        "tez.local.mode.without.network", "true",
        "tez.ignore.lib.uris", "true",
        "tez.staging-dir", scratch + "/tez",
        "tez.runtime.optimize.local.fetch", "true",
        "tez.runtime.io.sort.mb", "24",
        "hive.tez.container.size", "256",
        "mapreduce.framework.name", "local",
        "mapreduce.jobtracker.address", "local",
        "mapreduce.jobtracker.staging.root.dir", scratch + "/mapreduce",
        "mapreduce.cluster.local.dir", scratch + "/mapreduce-local",
        "mapreduce.task.io.sort.mb", "24",
        "hive.exec.submit.local.task.via.child", "false",
        "hive.exec.submitviachild", "false",
        "hive.auto.convert.join", "false",
        "hive.fetch.task.conversion", "none",
        "hive.stats.autogather", "true",
        "hive.stats.column.autogather", "false",
      },
      { // what a server would do beside
        "hive.server2.logging.operation.enabled", "false",
        "hive.security.authorization.enabled", "false",
        "hive.security.authorization.manager",
        "org.apache.hadoop.hive.ql.security.authorization.plugin.sqlstd.SQLStdHiveAuthorizerFactory",
        "hive.notification.event.poll.interval", "0s",
        "hive.metastore.event.db.notification.api.auth", "false",
        "metastore.event.db.notification.api.auth", "false",
        "hive.materializedview.rewriting", "false",
        "hive.server2.materializedviews.registry.impl", "DUMMY",
        "hive.scheduled.queries.executor.enabled", "false",
        "hive.query.lifetime.hooks", "",
        "hive.query.results.cache.enabled", "false",
      },
      { // the metastore, in Derby or where the caller says
        "hive.metastore.uris", "",
        "hive.metastore.schema.verification", "false",
        "metastore.schema.verification", "false",
        "datanucleus.schema.autoCreateAll", "false",
        "datanucleus.connectionPool.maxPoolSize", "6",
        "metastore.compactor.connectionPool.maxPoolSize", "4",
        "javax.jdo.option.ConnectionURL", database(directory),
        "javax.jdo.option.ConnectionDriverName",
        Schema.isPostgres() ? "org.postgresql.Driver"
            : Tool.FOUR ? "org.apache.derby.iapi.jdbc.AutoloadedDriver" : "org.apache.derby.jdbc.EmbeddedDriver",
        "javax.jdo.option.ConnectionUserName", "APP",
        "javax.jdo.option.ConnectionPassword", "mine",
      },
    };
    for (String[] group : groups) for (int n = 0; n < group.length; n += 2) site.set(group[n], group[n + 1]);
    for (String name : System.getProperties().stringPropertyNames()) {
      if (name.startsWith(GIVEN)) site.set(name.substring(GIVEN.length()), System.getProperty(name));
    }
    Tool.writeSite(site);
    return new HiveConf(Tool.class);
  }

  private static String database(Path directory) {
    Schema.url = System.getProperty("tool.metastore", "");
    if (!Schema.url.isEmpty()) return Schema.url;
    System.setProperty("derby.stream.error.file", directory.resolve("derby.log").toString());
    System.setProperty("derby.system.home", directory.toString());
    System.setProperty("derby.system.durability", "test");
    System.setProperty("derby.storage.pageCacheSize", "4000");
    Schema.url = "jdbc:derby:;databaseName=" + directory.resolve("metastore_db") + ";create=true";
    return Schema.url;
  }
}
