import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.util.ToolRunner;

/**
 * A name node and a data node in one process, until its input ends; prints their address. A line of
 * its input is a command of dfsadmin, or {@code restart} or {@code stop} of the name node, answered
 * by a line with its exit code.
 */
public class Hdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, arguments[0]);
        conf.setInt("dfs.replication", 1);
        conf.setInt("fs.trash.interval", 60);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println(cluster.getURI());
        conf.set("fs.defaultFS", cluster.getURI().toString());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int code = 0;
            if (line.equals("restart")) {
                cluster.restartNameNode(0);
            } else if (line.equals("stop")) {
                cluster.shutdownNameNode(0);
            } else {
                code = ToolRunner.run(new DFSAdmin(conf), line.split(" "));
            }
            System.out.println("exit " + code);
        }
        System.exit(0); // the directory goes: nobody waits for an orderly end
    }
}
