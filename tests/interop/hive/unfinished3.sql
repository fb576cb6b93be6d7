set hive.query.results.cache.enabled=false;
insert into u_p partition(p) values (10,'j','x'),(11,'k','z');
!snap open_delete u_p;
!compact u_p major p=y;
!cleaner;
!snap open_delete_major u_p;
!stream u_t 3 rows=2 commit=2 from=100;
!halt;
