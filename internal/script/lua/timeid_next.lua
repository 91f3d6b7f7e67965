-- Give out ids that consist of a time and a number. Running it twice skips some.
-- KEYS  1 hash: sec, the seconds of the last id; seq, its number
-- ARGV  1 how many
--       2 and 3: the sec and seq above which they are to be; 0 and 0: any
--       4 seconds from the epoch of Unix to that of the ids
--       5 how long an idle hash lives, in ms
-- RETURN  the sec of all of them, and the seq of the first
local clock = redis.call('time')
local now = tonumber(clock[1]) - tonumber(ARGV[4])
local last = redis.call('hmget', KEYS[1], 'sec', 'seq')
local sec, seq = last[1], last[2]
if sec and seq then
  local function between(text, most) return (text == '0' or string.find(text, '^[1-9]%d*$')) and #text <= 10 and tonumber(text) < most end
  if not between(sec, 2 ^ 31) or not between(seq, 2 ^ 32) then
    error('the key ' .. KEYS[1] .. ' does not hold the last of a row of time ids: use another name, or delete the key', 0)
  end
  sec, seq = tonumber(sec), tonumber(seq)
else
  if redis.call('exists', KEYS[1]) == 1 then return redis.error_reply('WRONGTYPE the hash is not that of time ids') end
  -- New, or forgotten: above all that an earlier hash can have given out. If that was begun in an earlier second, it has
  -- come to the present second at most; if in this one, to the next, but not to as many numbers as nanoseconds.
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
