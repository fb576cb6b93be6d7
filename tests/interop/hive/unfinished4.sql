set hive.query.results.cache.enabled=false;
delete from u_t where id=100;
!snap stream_open u_t;
