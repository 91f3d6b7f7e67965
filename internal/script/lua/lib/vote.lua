-- A restarted server may have lost a lock that it has granted. It must not vote until such a lock has expired.
-- ARGV  4 the longest lease of all clients in ms
-- Both ends of the uptime are truncated to whole seconds, so the real uptime may be one second less.
local up = (tonumber(string.match(redis.call('info', 'server'), 'uptime_in_seconds:(-?%d+)')) - 1) * 1000
if up < tonumber(ARGV[4]) and redis.call('exists', KEYS[1]) == 0 then return 'young ' .. (ARGV[4] - up) end
