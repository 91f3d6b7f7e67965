-- A server that has come up lately may have forgotten whom it has given its vote. It must not give another one until
-- what it may have forgotten is over.
-- ARGV  4 the longest lease of anybody in ms
-- Both ends of the uptime are cut to whole seconds, so it may be one less.
local up = (tonumber(string.match(redis.call('info', 'server'), 'uptime_in_seconds:(-?%d+)')) - 1) * 1000
if up < tonumber(ARGV[4]) and redis.call('exists', KEYS[1]) == 0 then return 'young ' .. (ARGV[4] - up) end
