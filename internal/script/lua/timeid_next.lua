-- Allocate ids that consist of a time and a number. Running it twice skips some ids.
-- KEYS  1 hash: sec, the seconds of the last id; seq, its number
-- ARGV  1 how many
--       2 and 3: the ids must be above this sec and seq; 0 and 0: any
--       4 seconds from the Unix epoch to that of the ids
--       5 TTL of an idle hash in ms
-- RETURN  the sec of all ids, and the seq of the first one
local clock = redis.call('time')
local now = tonumber(clock[1]) - tonumber(ARGV[4])
local last = redis.call('hmget', KEYS[1], 'sec', 'seq')
local sec, seq = last[1], last[2]
if sec and seq then
  local function between(text, most) return (text == '0' or string.find(text, '^[1-9]%d*$')) and #text <= 10 and tonumber(text) < most end
  if not between(sec, 2 ^ 31) or not between(seq, 2 ^ 32) then
    error('the key ' .. KEYS[1] .. ' does not hold the last of a row of time ids: use another name, or check which program writes the key', 0)
  end
  sec, seq = tonumber(sec), tonumber(seq)
else
  if redis.call('exists', KEYS[1]) == 1 then return redis.error_reply('WRONGTYPE the hash is not that of time ids') end
  -- There is no hash, or it was lost. The ids must be above all that a lost hash can have allocated. If that hash was created in an
  -- earlier second, it has reached at most the present second. If it was created in this second, it has reached at most the next
  -- one, with fewer numbers than nanoseconds have passed.
  sec, seq = now + 1, tonumber(clock[2]) * 1000
end
local floor, number = tonumber(ARGV[2]), tonumber(ARGV[3])
if sec < floor or sec == floor and seq < number then sec, seq = floor, number end
if now > sec then
  if math.floor(now / 86400) > math.floor(sec / 86400) then seq = 0 end
  sec = now
end
if now < 0 or sec >= 2 ^ 31 then return redis.error_reply('ERR the clock of the server is before 2022 or after 2089') end
if seq + ARGV[1] >= 2 ^ 32 then return redis.error_reply('ERR all 4294967295 ids of this day are given out') end
redis.call('hset', KEYS[1], 'sec', sec, 'seq', seq + ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[5])
return {sec, seq + 1}
